"""What an app sees of a link, and what it remembers of a peer and of what was said."""
from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from phones.mesh.noise import Handshake, Session
from phones.mesh.packets import Packet
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
    """Fragments until they are a whole."""

    LIFE = 30.0

    def __init__(self) -> None:
        self._sets: dict[object, tuple[float, dict[int, Fragment]]] = {}

    def add(self, key: object, part: Fragment) -> bytes | None:
        """The encoded packet, when this was the last one that was missing."""
        now = time.monotonic()
        begun, parts = self._sets.get(key, (now, {}))
        if now - begun > self.LIFE:
            begun, parts = now, {}
        self._sets[key] = (begun, parts)
        parts[part.index] = part
        if len(parts) < part.total:
            return None
        del self._sets[key]
        return b"".join(parts[index].slice for index in range(part.total))


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
