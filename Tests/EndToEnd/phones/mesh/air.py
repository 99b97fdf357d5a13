"""What an app sees of a link, and what it remembers of a peer and of what was said."""
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
    """A link to one neighbour. What is put into it goes out in that order."""

    def __init__(self) -> None:
        #: Whose it is: of the first announce with TTL 7 that was right.
        self.peer: bytes | None = None
        #: When the neighbour was asked for what was missed, in monotonic seconds.
        self.asked_at: float | None = None
        self._waiting: asyncio.Queue[tuple[bytes, float]] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None

    @property
    @abstractmethod
    def limit(self) -> int:
        """The longest frame."""

    @abstractmethod
    async def carry(self, frame: bytes) -> None:
        """Hands a frame to the radio."""

    def put(self, frame: bytes, pause: float = 0) -> None:
        """pause: seconds after it in which nothing goes out."""
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
        """For who wonders why nothing comes."""
        ended = self._work is not None and self._work.done()
        return f"{self._waiting.qsize()} frames wait{', and its sender has ended' if ended else ''}"

    def end(self) -> None:
        if self._work is not None:
            self._work.cancel()


@dataclass
class Peer:
    """Somebody whose announce was right."""

    id: bytes
    announce: Announce
    packet: Packet
    session: Session | None = None
    handshake: Handshake | None = None
    #: Plaintexts that wait for the session.
    waiting: list[bytes] = field(default_factory=list)
    #: Ciphertexts that came before the handshake was over.
    early: list[Packet] = field(default_factory=list)
    #: What it said of itself inside Noise.
    capabilities: frozenset[int] | None = None
    #: Whether this phone is a favourite of it.
    likes_us: bool = False
    is_verified: bool = False
    #: The nonce of the challenge that it has not answered.
    challenged: bytes | None = None
    hops: int = 0


class Assembly:
    """Fragments until they are a whole. Both apps count from the first fragment that came, however many come after it."""

    LIFE = 30.0
    #: Bytes of the slices of a packet: of a file as many as one has with what is around it, of others 1 MiB.
    LARGEST: dict[int, int] = {Type.FILE: LARGEST_PAYLOAD, Type.ENCRYPTED: LARGEST_PAYLOAD}

    def __init__(self, most: int) -> None:
        """most: sets at a time; the oldest gives way."""
        self.most = most
        #: In seconds; a slow guest needs more.
        self.life = limit(self.LIFE)
        #: Of those that were given up: how many fragments had come, of how many, and the first that had not.
        self.given_up: list[tuple[int, int, int]] = []
        self._sets: dict[object, tuple[float, dict[int, Fragment]]] = {}

    def add(self, key: object, part: Fragment) -> bytes | None:
        """The encoded packet, when this was the last one that was missing."""
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
    """Something that was said, and is shown."""

    sender: bytes
    nickname: str
    text: str
    time: int
    #: That of a private message.
    message_id: str | None = None


@dataclass
class Received:
    """A file that came."""

    sender: bytes
    name: str
    mime: str
    content: bytes
    is_private: bool
