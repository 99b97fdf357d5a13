"""The differences between the two Bitchat apps (docs/facts/bitchat.md)."""
from __future__ import annotations

import random
import time
from dataclasses import replace

from phones.mesh.air import MeshLink, Peer
from phones.mesh.app import App
from phones.mesh.mail import Mail
from phones.mesh.packets import ANDROID_LEVEL, EVERYBODY, IOS_LEVEL, TTL, Packet, Type
from phones.mesh.parcels import Fragment
from phones.mesh.sync import Filter, SyncRequest
from phones.mesh.values import Announce, Capability


class IOSApp(Mail):
    """1.7.1"""

    kind = "iOS"
    level = IOS_LEVEL
    capabilities = frozenset({
        Capability.PREKEYS, Capability.GROUPS, Capability.VOUCH, Capability.PRIVATE_MEDIA, Capability.PRIVATE_MEDIA_RECEIPTS,
    })
    signs_noise = False
    most_fragments = 10_000
    pace = (0.030, 0.025)
    most_sets = 128
    everybody = None
    announce_skew = 120_000
    #: Whether its user has enabled the bridge.
    bridge: str | None = "u4pruy"

    #: Maximum deviation of a packet's timestamp, and maximum age of an announce in a sync answer, in milliseconds.
    GUARD, OLDEST_ANNOUNCE = 120_000, 900_000
    #: Seconds in which sync answers of a neighbour are accepted.
    ANSWERS_FOR = 30.0
    keeps = App.keeps | {Type.FRAGMENT, Type.FILE}
    #: Maximum number per type, and maximum age of files in milliseconds.
    KEPT: dict[int, int] = {Type.FRAGMENT: 600, Type.FILE: 200}
    FILES_FOR = 900_000
    #: Types of its sync requests, with intervals in seconds: announces and public messages, fragments, files.
    REQUESTS = ((frozenset({0, 1}), 30.0), (frozenset({5}), 30.0), (frozenset({7}), 60.0))

    def announce_payload(self) -> bytes:
        near = tuple(sorted({link.peer for link in self.links if link.peer}))
        return Announce(
            self.nickname, self.identity.noise_key, self.identity.signing_key, near or None, self.capabilities, self.bridge
        ).encoded()

    def announce_period(self, has_neighbours: bool) -> float:
        return random.uniform(11, 19) if has_neighbours else 4

    def slice_size(self, packet: Packet, limit: int) -> int:
        """The app's own computation for narrow links is off by one for directed packets (docs/facts/bitchat-delta.md section 3.1),
        with an unknown result; here they fit."""
        around = 14 + 8 + 8 * (packet.recipient is not None) + 13
        return 469 if limit >= around + 469 else max(64, limit - around)

    def fragment_key(self, packet: Packet, fragment: Fragment) -> object:
        return packet.sender, fragment.id

    def check_time(self, link: MeshLink, packet: Packet) -> str | None:
        age = self.now() - packet.timestamp
        if packet.is_rsr:
            if packet.ttl != 0 or link.asked_at is None or time.monotonic() - link.asked_at > self.ANSWERS_FOR:
                return "answer that was not asked for"
            return "announce too old" if packet.type == Type.ANNOUNCE and age > self.OLDEST_ANNOUNCE else None
        return "clock" if abs(age) > self.GUARD else None

    def check_mark(self, packet: Packet) -> str | None:
        is_answer = packet.ttl == 0 and packet.type in (Type.ANNOUNCE, Type.MESSAGE, Type.FILE)
        return "answer without its mark" if is_answer and not packet.is_rsr else None

    def met(self, link: MeshLink, peer: Peer) -> None:
        self.later(self.ASKS_AFTER, lambda: self.request_sync(link))
        if Capability.PRIVATE_MEDIA in (peer.announce.capabilities or ()) and peer.session is None:
            self._begin(peer)
        self.hand_over(peer)

    def request_sync(self, link: MeshLink) -> None:
        for types, period in self.REQUESTS:
            self._ask(link, types, period)

    def _ask(self, link: MeshLink, types: frozenset[int], period: float) -> None:
        if link not in self.links or link.peer is None:
            return
        self.later(period, lambda: self._ask(link, types, period))
        link.asked_at = time.monotonic()
        request = SyncRequest(Filter.of(self.ids(types)), types)
        self.send(self.signed(self.packet(Type.REQUEST_SYNC, request.encoded(), link.peer, ttl=0)), [link])

    def keep(self, packet: Packet) -> None:
        """Also stores public fragments and files."""
        super().keep(packet)
        most = self.KEPT.get(packet.type)
        if most is None:
            return
        held = [(kept.timestamp, packet_id) for packet_id, kept in self._archive.items() if kept.type == packet.type]
        for _, packet_id in sorted(held)[: max(0, len(held) - most)]:
            del self._archive[packet_id]

    def is_fresh(self, packet: Packet) -> bool:
        return packet.type != Type.FILE or self.now() - packet.timestamp <= self.FILES_FOR

    def answer(self, link: MeshLink, packet: Packet) -> Packet:
        return replace(packet, ttl=0, is_rsr=True)

    def may_ask(self, link: MeshLink, packet: Packet) -> str | None:
        peer = self.peers.get(packet.sender)
        if packet.ttl != 0:
            return "request with a TTL"
        if link.peer is None:
            return "request before an announce"
        if peer is None or link.peer != packet.sender:
            return "request of somebody else than the neighbour"
        return None if packet.is_signed_by(peer.announce.signing_key, self.level) else "request without a right signature"

    def relay(self, link: MeshLink, packet: Packet) -> None:
        """The relay rule with at most two links, as in these tests."""
        if packet.ttl <= 1 or len(self.links) < 2:
            return
        self.relayed[packet.type] += 1
        delay = random.uniform(0.01, 0.06) if packet.recipient not in (None, EVERYBODY) else random.uniform(0.06, 0.15)
        self.later(delay, lambda: self.send(replace(packet, ttl=min(packet.ttl, TTL) - 1), but=link))


class AndroidApp(App):
    """2.0.1"""

    kind = "Android"
    level = ANDROID_LEVEL
    capabilities = frozenset({Capability.PRIVATE_MEDIA})
    signs_noise = True
    most_fragments = 256
    pace = (0.020, 0.020)
    most_sets = 64
    everybody = EVERYBODY
    announce_skew = 600_000
    LEAVE_SKEW = 300_000
    #: Types that are relayed only if they are valid.
    VERIFIED = {Type.ANNOUNCE, Type.MESSAGE, Type.LEAVE, Type.FILE}

    def announce_payload(self) -> bytes:
        near = tuple(sorted({link.peer for link in self.links if link.peer}))
        announce = Announce(self.nickname, self.identity.noise_key, self.identity.signing_key, near or None, self.capabilities)
        return announce.encoded(neighbours_last=True)

    def announce_period(self, has_neighbours: bool) -> float:
        return 30

    def slice_size(self, packet: Packet, limit: int) -> int:
        """Bytes of a fragment: 13 and 15 are an old length of the header, and 13 that of the fragment's own header."""
        overhead = (15 if packet.route else 13) + 8 + 8 * (packet.recipient is not None) + 13 + 16
        overhead += 1 + 8 * len(packet.route) if packet.route else 0
        return min(469, 512 - overhead)

    def whole(self, packet: Packet) -> bytes:
        return packet.encoded(self.level)

    def fragment_key(self, packet: Packet, fragment: Fragment) -> object:
        return fragment.id

    def check_time(self, link: MeshLink, packet: Packet) -> str | None:
        skew = abs(self.now() - packet.timestamp)
        if packet.type == Type.ANNOUNCE and skew > self.announce_skew:
            return "announce too old"
        return "leave too old" if packet.type == Type.LEAVE and skew > self.LEAVE_SKEW else None

    def met(self, link: MeshLink, peer: Peer) -> None:
        self.later(self.ASKS_AFTER, lambda: self.request_sync(link))

    def request_sync(self, link: MeshLink) -> None:
        if link not in self.links or link.peer is None:
            return
        self.later(self.ASKS_EVERY, lambda: self.request_sync(link))
        request = SyncRequest(Filter.of(self.ids({0, 1})))
        self.send(self.signed(self.packet(Type.REQUEST_SYNC, request.encoded(), link.peer, ttl=0)), [link])

    def answer(self, link: MeshLink, packet: Packet) -> Packet:
        """Sends sync answers without the RSR mark, which it does not know."""
        return replace(packet, ttl=0)

    def may_ask(self, link: MeshLink, packet: Packet) -> str | None:
        return None if packet.ttl == 0 else "request with a TTL"

    def relay(self, link: MeshLink, packet: Packet) -> None:
        """Also relays packets whose TTL becomes 0."""
        if len(self.links) < 2:
            return
        self.relayed[packet.type] += 1
        self.send(replace(packet, ttl=packet.ttl - 1), but=link)
