"""A Bitchat app without its radio: the common behaviour of both apps. `apps.py` has the differences."""
from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Set
from dataclasses import replace
from typing import Self, TypeVar

from phones.mesh import values
from phones.mesh.air import Assembly, Heard, MeshLink, Peer, Received
from phones.mesh.media import Media
from phones.mesh.packets import EVERYBODY, PADDED, Malformed, Packet, Type, padded
from phones.mesh.parcels import Fragment, fragments
from phones.mesh.sync import SYNC_BITS, SyncRequest
from phones.mesh.values import Announce, Identity

T = TypeVar("T")


class App(Media):
    kind: str
    #: Level of its deflate.
    level: int
    capabilities: frozenset[int]
    signs_noise: bool
    #: Maximum fragments of a packet, and maximum number of incomplete packets.
    most_fragments: int
    most_sets: int
    #: Seconds between fragments, for public and for directed packets.
    pace: tuple[float, float]
    #: The recipient of public packets.
    everybody: bytes | None
    #: Maximum deviation of an announce's timestamp in milliseconds.
    announce_skew: int
    longest_text = 60_000
    #: Types that it sends in answer to sync requests.
    keeps: frozenset[int] = frozenset({Type.ANNOUNCE, Type.MESSAGE})
    #: Seconds until the first sync request to a new neighbour, and between further ones. A filter hides one missing packet in a
    #: hundred, each time a different one.
    ASKS_AFTER, ASKS_EVERY = 1.0, 30.0

    def __init__(self, nickname: str, identity: Identity | None = None) -> None:
        self.nickname = nickname
        self.identity = identity or Identity()
        self.id = self.identity.peer_id
        self.links: list[MeshLink] = []
        self.peers: dict[bytes, Peer] = {}
        self.lines: list[Heard] = []
        self.private: list[Heard] = []
        self.files: list[Received] = []
        self.favourites: frozenset[bytes] = frozenset()
        #: The delivery reports of the peer by message ID, in order.
        self.receipts: defaultdict[str, list[str]] = defaultdict(list)
        #: Packets that no app would send.
        self.faults: list[str] = []
        #: Refused packets, by reason.
        self.refused: Counter[str] = Counter()
        #: Number of received packets by type, including those for others.
        self.heard: Counter[int] = Counter()
        #: Number of received packets by sender.
        self.senders: Counter[bytes] = Counter()
        self.relayed: Counter[int] = Counter()
        #: Seconds by which its clock is wrong.
        self.clock_error = 0.0
        self._pins: dict[bytes, bytes] = {}
        self._archive: dict[bytes, Packet] = {}
        self._seen: set[bytes] = set()
        self.assembly = Assembly(self.most_sets)
        self._strangers: dict[bytes, Packet] = {}
        self._answers: defaultdict[bytes, list[float]] = defaultdict(list)
        self._changed = asyncio.Event()
        self._work: set[asyncio.Task[None]] = set()
        self._announcing: asyncio.Task[None] | None = None

    # Behaviour in which the two apps differ.

    @abstractmethod
    def announce_payload(self) -> bytes: ...

    @abstractmethod
    def announce_period(self, has_neighbours: bool) -> float:
        """Seconds between broadcast announces."""

    @abstractmethod
    def slice_size(self, packet: Packet, limit: int) -> int:
        """Bytes of a packet in each of its fragments."""

    @abstractmethod
    def fragment_key(self, packet: Packet, fragment: Fragment) -> object: ...

    @abstractmethod
    def check_time(self, link: MeshLink, packet: Packet) -> str | None:
        """The reason why a packet is too old or too new; None if it is neither."""

    def check_mark(self, packet: Packet) -> str | None:
        """The reason to refuse a sync answer without the RSR mark; None where the app does not know the mark. This is stricter than the
        app, which accepts recent packets without it; a phone that was away for longer would miss the others."""
        return None

    @abstractmethod
    def request_sync(self, link: MeshLink) -> None: ...

    @abstractmethod
    def answer(self, link: MeshLink, packet: Packet) -> Packet:
        """A packet of the archive in the form of a sync answer."""

    @abstractmethod
    def may_ask(self, link: MeshLink, packet: Packet) -> str | None:
        """The reason to refuse a sync request; None if there is none."""

    @abstractmethod
    def relay(self, link: MeshLink, packet: Packet) -> None: ...

    def met(self, link: MeshLink, peer: Peer) -> None:
        """Handles the first announce of a neighbour on this link."""

    def took(self, link: MeshLink, packet: Packet) -> None:
        """Handles a packet of a type that only some apps know, for this phone."""

    def wants(self, packet: Packet) -> bool:
        """Whether this app handles a type that only some apps know."""
        return False

    # Time.

    def now(self) -> int:
        """Milliseconds since 1970 by its clock."""
        return int((time.time() + self.clock_error) * 1000)

    def later(self, seconds: float, work: Callable[[], None]) -> None:
        async def run() -> None:
            await asyncio.sleep(seconds)
            work()

        task = asyncio.ensure_future(run())
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    def again(self) -> Self:
        """The app after a restart, with its keys and the peers that it has met."""
        new = type(self)(self.nickname, self.identity)
        new.favourites = self.favourites
        for known in self.peers.values():
            new.remember(known.announce, known.packet)
        return new

    def meet_again(self, other: App) -> None:
        """Makes the two apps known to each other, as if they had met before."""
        announce = Announce.decode(other.announce_payload())
        self.remember(announce, other.signed(other.packet(Type.ANNOUNCE, other.announce_payload())))

    def remember(self, announce: Announce, packet: Packet) -> None:
        self.peers[packet.sender] = Peer(packet.sender, announce, packet)
        self._pins[packet.sender] = announce.signing_key

    def close(self) -> None:
        for task in [*self._work, *([self._announcing] if self._announcing else [])]:
            task.cancel()
        for link in list(self.links):
            self.left(link)

    async def until(self, what: str, test: Callable[[], T], timeout: float = 30) -> T:
        """Waits until `test` returns a true value, checking it at each received packet."""
        try:
            async with asyncio.timeout(timeout):
                while True:
                    self._changed.clear()
                    if found := test():
                        return found
                    await self._changed.wait()
        except TimeoutError:
            known = {"lines": [line.text[:30] for line in self.lines], "private": len(self.private), "refused": dict(self.refused),
                     "faults": self.faults[:3], "peers": [peer.id.hex() for peer in self.peers.values()], "heard": dict(self.heard),
                     "fragments given up": self.assembly.given_up[-3:]}
            raise TimeoutError(f"{self.nickname}: {what}: not within {timeout:.0f} s; it has {known}") from None

    def has_line(self, content: str) -> bool:
        return any(line.text == content for line in self.lines)

    def note(self, fault: str) -> None:
        self.faults.append(fault)
        self._changed.set()

    # Links.

    def joined(self, link: MeshLink) -> None:
        """Handles a usable new link."""
        self.links.append(link)
        self._changed.set()
        if self._announcing is None:
            self._announcing = asyncio.ensure_future(self._announce_again_and_again())

    async def _announce_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(self.announce_period(any(link.peer for link in self.links)))
            self.announce()

    def left(self, link: MeshLink) -> None:
        link.end()
        if link in self.links:
            self.links.remove(link)
        self._changed.set()

    # Sending.

    def packet(self, kind: Type, payload: bytes, recipient: bytes | None = None, **more: int) -> Packet:
        return Packet(kind, self.id, self.now(), payload, recipient=recipient, **more)

    def signed(self, packet: Packet) -> Packet:
        return packet.signed(self.identity.signing, self.level)

    def announce(self, links: Iterable[MeshLink] | None = None) -> None:
        self.send(self.signed(self.packet(Type.ANNOUNCE, self.announce_payload())), links)

    def say(self, content: str) -> Packet:
        """Sends a public message."""
        packet = self.signed(self.packet(Type.MESSAGE, content.encode(), self.everybody))
        self.keep(packet)
        self.send(packet)
        return packet

    def leave(self) -> None:
        self.send(self.signed(self.packet(Type.LEAVE, b"")))

    def send(self, packet: Packet, links: Iterable[MeshLink] | None = None, but: MeshLink | None = None) -> None:
        """Sends over these links, or to the recipient, or over all links; in fragments if the packet is too long."""
        chosen = list(self.links if links is None else links)
        if links is None and packet.recipient not in (None, EVERYBODY):
            chosen = [link for link in chosen if link.peer == packet.recipient][:1] or chosen
        self._seen.add(self._key(packet))
        for link in chosen:
            if link is not but:
                self._send_over(link, packet)

    def _send_over(self, link: MeshLink, packet: Packet) -> None:
        whole = self.whole(packet)
        if len(whole) <= link.limit:
            link.put(packet.on_air(self.level))
            return
        if packet.type == Type.FRAGMENT:
            self.refused["a fragment too long for the link"] += 1
            return
        size = self.slice_size(packet, link.limit)
        directed = packet.recipient not in (None, EVERYBODY)
        for part in fragments(packet, whole, size, uuid.uuid4().bytes[:8]):
            link.put(part.on_air(self.level), self.pace[directed])

    def whole(self, packet: Packet) -> bytes:
        """The encoding whose length decides about fragments."""
        return packet.on_air(self.level)

    # Receiving.

    def received(self, link: MeshLink, frame: bytes) -> None:
        """Handles one complete frame of a neighbour."""
        try:
            packet = Packet.decode(frame)
            self._check_padding(packet, frame)
            self._take(link, packet)
        except Malformed as wrong:
            self.refused["malformed"] += 1
            self.note(f"{wrong}: {frame[:40].hex()}")
        self._changed.set()

    @staticmethod
    def _check_padding(packet: Packet, frame: bytes) -> None:
        """Checks that Noise packets are padded and no others."""
        length = Packet.measure(frame)
        bare = frame[:length]
        if frame != (padded(bare) if packet.type in PADDED else bare):
            raise Malformed(f"{len(frame)} bytes of type {packet.type:02x} with {len(frame) - len(bare)} of padding")

    def _key(self, packet: Packet) -> bytes:
        text = bytes([packet.type]) + packet.sender + packet.timestamp.to_bytes(8, "big") + packet.payload
        return hashlib.sha256(text).digest()

    def _take(self, link: MeshLink, packet: Packet, *, put_together: bool = False) -> None:
        if packet.sender == self.id:
            return self._refuse("own packet")
        self.heard[packet.type] += 1
        self.senders[packet.sender] += 1
        if why := self.check_time(link, packet) or (None if put_together else self.check_mark(packet)):
            return self._refuse(why)
        key = self._key(packet)
        if key in self._seen:
            return self._refuse("copy")
        is_ours = packet.recipient in (None, EVERYBODY, self.id)
        if packet.type == Type.REQUEST_SYNC:
            return self._answer_sync(link, packet) if is_ours else self._refuse("request for another")
        taken = not is_ours or self._handle(link, packet)
        # Recorded only if valid: a forged copy must not suppress the authentic packet.
        if taken:
            self._seen.add(key)
        if taken and not put_together and packet.recipient != self.id and packet.ttl > 0 and not packet.is_rsr:
            self.relay(link, packet)

    def _handle(self, link: MeshLink, packet: Packet) -> bool:
        """Handles a packet; returns whether it was valid."""
        match packet.type:
            case Type.ANNOUNCE:
                return self._take_announce(link, packet)
            case Type.MESSAGE | Type.LEAVE | Type.FILE:
                return self._take_signed(packet)
            case Type.HANDSHAKE | Type.ENCRYPTED:
                if packet.recipient != self.id:
                    raise Malformed(f"Noise for {packet.recipient and packet.recipient.hex()}")
                return self._take_handshake(packet) if packet.type == Type.HANDSHAKE else self._take_encrypted(packet)
            case Type.FRAGMENT:
                self._collect(link, packet)
                return True
            case _ if self.wants(packet):
                self.took(link, packet)
        return True

    def _take_announce(self, link: MeshLink, packet: Packet) -> bool:
        found = Announce.decode(packet.payload)
        if values.peer_id(found.noise_key) != packet.sender:
            self._refuse("peer ID that is not its key's")
            return False
        if packet.recipient is not None or not packet.is_signed_by(found.signing_key, self.level):
            self._refuse("announce without a right signature")
            return False
        if self._pins.setdefault(packet.sender, found.signing_key) != found.signing_key:
            self._refuse("another signing key")
            return False
        peer = self.peers.get(packet.sender) or Peer(packet.sender, found, packet)
        peer.announce, peer.packet = found, packet
        peer.hops = 8 - packet.ttl if packet.ttl else peer.hops
        self.peers[packet.sender] = peer
        self.keep(packet)
        if packet.ttl == 7 and link.peer is None:
            link.peer = packet.sender
            self.met(link, peer)
        if waiting := self._strangers.pop(packet.sender, None):
            self._take_handshake(waiting)
        return True

    def _take_signed(self, packet: Packet) -> bool:
        peer = self.peers.get(packet.sender)
        if peer is None:
            self._refuse("unknown sender")
            return False
        if not packet.is_signed_by(peer.announce.signing_key, self.level):
            self._refuse("signature")
            return False
        if packet.type == Type.LEAVE:
            del self.peers[packet.sender]
            return True
        if packet.type == Type.FILE:
            if packet.version != 2 or packet.recipient == self.id:
                raise Malformed("a file in clear for one peer, or of version 1")
            self.take_file(packet.sender, packet.payload, private=False)
            self.keep(packet)
            return True
        content = values.text(packet.payload)
        if packet.recipient == self.id or not content or len(content) > self.longest_text:
            raise Malformed("a line that is none")
        self.keep(packet)
        self.lines.append(Heard(packet.sender, peer.announce.nickname, content, packet.timestamp))
        return True

    # Fragments.

    def _collect(self, link: MeshLink, packet: Packet) -> None:
        part = Fragment.decode(packet.payload)
        if packet.signature is not None or packet.version != (2 if packet.route else 1):
            raise Malformed(f"a fragment that is signed, or of version {packet.version}")
        if part.total > self.most_fragments:
            return self._refuse("too many fragments")
        if packet.recipient in (None, EVERYBODY):
            self.keep(packet)
        data = self.assembly.add(self.fragment_key(packet, part), part)
        if data is None:
            return
        inner = Packet.decode(data)
        if inner.type == Type.FRAGMENT or inner.type != part.type or inner.sender != packet.sender:
            raise Malformed(f"fragments of type {part.type:02x} that give one of type {inner.type:02x}")
        self._take(link, replace(inner, ttl=0, is_rsr=packet.is_rsr), put_together=True)

    # Sync.

    def keep(self, packet: Packet) -> None:
        """Stores a packet for sync requests."""
        if packet.type not in self.keeps:
            return
        if packet.type == Type.ANNOUNCE:
            self._archive = {
                key: kept for key, kept in self._archive.items() if (kept.type, kept.sender) != (Type.ANNOUNCE, packet.sender)
            }
        self._archive[packet.id] = replace(packet, is_rsr=False)

    def is_fresh(self, packet: Packet) -> bool:
        """Whether a packet is still sent in answer to sync requests."""
        return True

    def ids(self, types: Set[int]) -> list[bytes]:
        """The IDs of stored packets of these types, the newest first."""
        held = [(-kept.timestamp, packet_id) for packet_id, kept in self._archive.items() if SYNC_BITS.get(kept.type) in types]
        return [packet_id for _, packet_id in sorted(held)]

    def _answer_sync(self, link: MeshLink, packet: Packet) -> None:
        if why := self.may_ask(link, packet):
            return self._refuse(why)
        answered = self._answers[packet.sender]
        now = time.monotonic()
        answered[:] = [at for at in answered if now - at < 30]
        if len(answered) >= 8:
            return self._refuse("request after eight in 30 s")
        answered.append(now)
        request = SyncRequest.decode(packet.payload)
        wanted = request.types if request.types is not None else frozenset({0, 1})
        missing = [
            self._archive[packet_id] for packet_id in request.filter.misses(self.ids(wanted))
            if self._is_wanted(self._archive[packet_id], packet.sender, request)
        ]
        # Announces first: a message of an unknown sender is refused.
        for kept in sorted(missing, key=lambda kept: (kept.type != Type.ANNOUNCE, kept.timestamp)):
            self._send_over(link, self.answer(link, kept))

    def _is_wanted(self, kept: Packet, sender: bytes, request: SyncRequest) -> bool:
        is_asked = request.fragments is None or kept.type != Type.FRAGMENT or kept.payload[:8] in request.fragments
        is_new = request.since is None or kept.timestamp >= request.since
        return is_asked and is_new and kept.sender != sender and self.is_fresh(kept)
