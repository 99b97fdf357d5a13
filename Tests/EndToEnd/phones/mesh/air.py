"""An app's state of a link, of a peer and of messages."""
from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from harness.limits import limit
from phones.mesh.noise import Handshake, Session
from phones.mesh.packets import LARGEST_PAYLOAD, Malformed, Packet, Type
from phones.mesh.parcels import Fragment
from phones.mesh.values import Announce


class MeshLink(ABC):
    """A link to one neighbour. Frames are sent in the order of `put`."""

    def __init__(self) -> None:
        #: The peer of the link: the sender of the first valid announce with TTL 7.
        self.peer: bytes | None = None
        #: When sync was requested from the neighbour, in monotonic seconds.
        self.asked_at: float | None = None
        self._waiting: asyncio.Queue[tuple[bytes, float]] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def limit(self) -> int:
        """Maximum length of a frame."""

    @abstractmethod
    async def carry(self, frame: bytes) -> None:
        """Passes a frame to the radio."""

    def put(self, frame: bytes, pause: float = 0) -> None:
        """Queues a frame. pause: seconds after it in which nothing is sent."""
        if self._work is None:
            self._work = asyncio.ensure_future(self._send())
        self._waiting.put_nowait((frame, pause))

    async def _send(self) -> None:
        while True:
            frame, pause = await self._waiting.get()
            await self.carry(frame)
            await asyncio.sleep(pause)

    @property
    def state(self) -> str:
        """The state of the link, for the diagnosis of failures."""
        ended = self._work is not None and self._work.done()
        return f"{self._waiting.qsize()} frames wait{', and its sender has ended' if ended else ''}"

    def end(self) -> None:
        if self._work is not None:
            self._work.cancel()


@dataclass
class Peer:
    """A peer with a valid announce."""

    id: bytes
    announce: Announce
    packet: Packet
    session: Session | None = None
    handshake: Handshake | None = None
    #: Plaintexts that wait for the session.
    waiting: list[bytes] = field(default_factory=list)
    #: Ciphertexts that arrived before the end of the handshake.
    early: list[Packet] = field(default_factory=list)
    #: The peer's state that it sent inside Noise.
    capabilities: frozenset[int] | None = None
    #: Whether the peer has marked this phone as favourite.
    likes_us: bool = False
    is_verified: bool = False
    #: The nonce of the challenge that the peer has not answered.
    challenged: bytes | None = None
    hops: int = 0


class Assembly:
    """Reassembly of fragments. Both apps count the timeout from the first fragment, however many follow."""

    LIFE = 30.0
    #: Maximum bytes of a packet's fragments: for a file those of a file packet, otherwise 1 MiB.
    LARGEST: dict[int, int] = {Type.FILE: LARGEST_PAYLOAD, Type.ENCRYPTED: LARGEST_PAYLOAD}

    def __init__(self, most: int) -> None:
        """most: maximum number of simultaneous sets; the oldest is evicted."""
        self.most = most
        #: Timeout in seconds; a slow guest needs more.
        self.life = limit(self.LIFE)
        #: Sets that were given up: received fragments, total, and the first missing one.
        self.given_up: list[tuple[int, int, int]] = []
        self._sets: dict[object, tuple[float, dict[int, Fragment]]] = {}

    def add(self, key: object, part: Fragment) -> bytes | None:
        """Adds a fragment; returns the encoded packet if this was the last missing one."""
        now = time.monotonic()
        for old in [each for each, held in self._sets.items() if now - held[0] > self.life]:
            held = self._sets.pop(old)[1]
            total = next(iter(held.values())).total
            self.given_up.append((len(held), total, next((index for index in range(total) if index not in held), total)))
        begun, parts = self._sets.setdefault(key, (now, {}))
        if len(self._sets) > self.most:
            del self._sets[min(self._sets, key=lambda each: self._sets[each][0])]
        if any((other.total, other.type) != (part.total, part.type) for other in list(parts.values())[:1]):
            del self._sets[key]
            raise Malformed("fragments of one packet that do not agree")
        parts[part.index] = part
        if len(parts) < part.total:
            return None
        del self._sets[key]
        found = b"".join(parts[index].slice for index in range(part.total))
        if len(found) > self.LARGEST.get(part.type, 1 << 20):
            raise Malformed(f"{len(found)} bytes in fragments")
        return found


@dataclass
class Heard:
    """A received message that is displayed."""

    sender: bytes
    nickname: str
    text: str
    time: int
    #: ID of a private message.
    message_id: str | None = None


@dataclass
class Received:
    """A received file."""

    sender: bytes
    name: str
    mime: str
    content: bytes
    is_private: bool
