"""Checks that the Bitchat phones refuse everything that the apps refuse. It needs no guest: `python3 -m suites.mesh_strict`."""
from __future__ import annotations

import asyncio
from dataclasses import replace

from phones.mesh.air import MeshLink
from phones.mesh.app import App
from phones.mesh.apps import AndroidApp, IOSApp
from phones.mesh.mail import DAY, HOUR
from phones.mesh.media import media_id
from phones.mesh.noise import Handshake
from phones.mesh.packets import Malformed, Packet, Type, padded
from phones.mesh.parcels import Envelope, File, Fragment, courier_tag, ping, seal_for
from phones.mesh.sync import Filter, SyncRequest
from phones.mesh.values import Announce, Identity, private_message


class Wire(MeshLink):
    """A link that records the frames put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Packet] = []

    @property
    def limit(self) -> int:
        return 512

    async def carry(self, frame: bytes) -> None:
        raise AssertionError

    def put(self, frame: bytes, pause: float = 0) -> None:
        self.sent.append(Packet.decode(frame))


class Node:
    """The other end, which sends valid and invalid packets of a node."""

    def __init__(self, make: type[App]) -> None:
        self.identity = Identity()
        self.app = make("phone")
        self.wire = Wire()
        self.app.joined(self.wire)

    def packet(self, kind: Type, payload: bytes, *, offset: int = 0, **more: object) -> Packet:
        return Packet(kind, self.identity.peer_id, self.app.now() + offset, payload, **more)

    def announce(self, signing: Identity | None = None, **more: object) -> Packet:
        signing = signing or self.identity
        payload = Announce("node", self.identity.noise_key, signing.signing_key).encoded()
        return self.packet(Type.ANNOUNCE, payload, **more).signed(signing.signing, self.app.level)

    def line(self, content: str, **more: object) -> Packet:
        return self.packet(Type.MESSAGE, content.encode(), **more).signed(self.identity.signing, self.app.level)

    def give(self, packet: Packet) -> None:
        self.app.received(self.wire, packet.on_air(self.app.level))

    def met(self) -> Node:
        self.give(self.announce())
        assert self.identity.peer_id in self.app.peers
        return self

    def refuses(self, packet: Packet, why: str) -> None:
        before, lines = self.app.refused[why], len(self.app.lines)
        self.give(packet)
        assert self.app.refused[why] == before + 1, (why, dict(self.app.refused), self.app.faults)
        assert len(self.app.lines) == lines

    def faults(self, frame: bytes) -> None:
        before = len(self.app.faults)
        self.app.received(self.wire, frame)
        assert len(self.app.faults) == before + 1, self.app.faults


async def check() -> None:
    for make in (IOSApp, AndroidApp):
        _announces(make)
        _lines(make)
        _frames(make)
        _requests(make)
        _noise(make)
        _sets(make)
        _private_files(make)
    _clocks()
    _fragments()
    _answers()
    _kept()
    _pings()
    _envelopes()


def _announces(make: type[App]) -> None:
    node, other = Node(make), Identity()
    node.refuses(replace(node.announce(), sender=other.peer_id), "peer ID that is not its key's")
    node.refuses(replace(node.announce(), signature=bytes(64)), "announce without a right signature")
    node.refuses(replace(node.announce(), signature=None), "announce without a right signature")
    assert not node.app.peers and node.wire.peer is None
    node.give(node.announce(ttl=5, offset=-1))
    assert node.wire.peer is None, "who was heard over hops is not the neighbour"
    node.met()
    assert node.wire.peer == node.identity.peer_id
    node.refuses(node.announce(other, offset=1), "another signing key")


def _lines(make: type[App]) -> None:
    node = Node(make)
    node.refuses(node.line("too early"), "unknown sender")
    node.met()
    node.refuses(replace(node.line("unsigned"), signature=None), "signature")
    node.refuses(replace(node.line("changed"), payload=b"otherwise"), "signature")
    line = node.line("right")
    node.give(line)
    node.refuses(line, "copy")
    assert [heard.text for heard in node.app.lines] == ["right"]
    node.faults(node.line("in clear", recipient=node.app.id).on_air(node.app.level))
    node.refuses(replace(node.line("mine"), sender=node.app.id), "own packet")


def _frames(make: type[App]) -> None:
    node = Node(make).met()
    node.faults(padded(node.line("padded").encoded(node.app.level)))
    node.faults(node.line("cut").encoded(node.app.level)[:-1])
    node.faults(node.line("more").encoded(node.app.level) + b"\0")
    node.faults(node.packet(Type.HANDSHAKE, bytes(32), recipient=node.app.id).encoded(node.app.level))
    node.faults(node.packet(Type.HANDSHAKE, bytes(32)).on_air(node.app.level))
    payload = File("a", "application/octet-stream", b"12").encoded()
    file = node.packet(Type.FILE, payload, version=2)
    for wrong in (replace(file, recipient=node.app.id), replace(file, version=1), replace(file, payload=payload[:-1])):
        node.faults(wrong.signed(node.identity.signing, node.app.level).on_air(node.app.level))
    node.give(file.signed(node.identity.signing, node.app.level))
    assert [found.content for found in node.app.files] == [b"12"]


def _requests(make: type[App]) -> None:
    node = Node(make).met()
    node.app.say("kept")
    payload = SyncRequest(Filter.of([])).encoded()
    asked = node.packet(Type.REQUEST_SYNC, payload, recipient=node.app.id, ttl=0).signed(node.identity.signing, node.app.level)
    node.refuses(replace(asked, ttl=1), "request with a TTL")
    if make is IOSApp:
        node.refuses(replace(asked, signature=None), "request without a right signature")
        node.wire.peer = Identity().peer_id
        node.refuses(asked, "request of somebody else than the neighbour")
        node.wire.peer = node.identity.peer_id
    node.wire.sent.clear()
    for number in range(8):
        node.give(replace(asked, timestamp=asked.timestamp + number).signed(node.identity.signing, node.app.level))
    answers = [packet for packet in node.wire.sent if packet.payload == b"kept"]
    assert len(answers) == 8 and all(packet.ttl == 0 and packet.is_rsr is (make is IOSApp) for packet in answers), answers
    node.refuses(replace(asked, timestamp=asked.timestamp + 9).signed(node.identity.signing, node.app.level),
                 "request after eight in 30 s")


def _noise(make: type[App]) -> None:
    node = Node(make).met()
    stranger = Handshake(True, Identity().noise)
    hello = node.packet(Type.HANDSHAKE, stranger.write(), recipient=node.app.id)
    node.give(hello)
    reply = next(packet for packet in reversed(node.wire.sent) if packet.type == Type.HANDSHAKE)
    stranger.read(reply.payload)
    node.faults(node.packet(Type.HANDSHAKE, stranger.write(), recipient=node.app.id, offset=1).on_air(node.app.level))
    assert node.app.peers[node.identity.peer_id].session is None, "a handshake with another key than the announce's"
    node.refuses(node.packet(Type.ENCRYPTED, bytes(40), recipient=node.app.id), "ciphertext without a session")


def _clocks() -> None:
    node = Node(IOSApp)
    node.refuses(node.announce(offset=-121_000), "clock")
    node.refuses(node.announce(offset=121_000), "clock")
    node.give(node.announce(offset=-119_000))
    node.refuses(node.line("old", offset=-121_000), "clock")
    node = Node(AndroidApp)
    node.refuses(node.announce(offset=-601_000), "announce too old")
    node.give(node.announce(offset=-599_000))
    assert node.app.peers
    leave = node.packet(Type.LEAVE, b"", offset=-301_000).signed(node.identity.signing, node.app.level)
    node.refuses(leave, "leave too old")
    assert node.app.peers


def _fragments() -> None:
    for make, most in ((AndroidApp, 256), (IOSApp, 10_000)):
        node = Node(make).met()
        few = node.packet(Type.FRAGMENT, Fragment(bytes(8), 0, most, Type.MESSAGE, b"x").encoded())
        node.give(few)
        assert not node.app.refused and not node.app.faults
        if make is AndroidApp:
            many = Fragment(bytes(8), 0, most + 1, Type.MESSAGE, b"x")
            node.refuses(node.packet(Type.FRAGMENT, many.encoded()), "too many fragments")


def _sets(make: type[App]) -> None:
    """Checks sets of fragments."""
    node = Node(make).met()

    def piece(index: int, total: int, kind: int = Type.MESSAGE, **more: object) -> Packet:
        return node.packet(Type.FRAGMENT, Fragment(b"together", index, total, kind, b"x" * 20).encoded(), offset=index, **more)

    node.faults(piece(0, 3).signed(node.identity.signing, node.app.level).on_air(node.app.level))
    node.faults(piece(0, 3, version=2).on_air(node.app.level))
    node.give(piece(0, 3))
    node.faults(piece(1, 4).on_air(node.app.level))
    node.give(piece(2, 3))
    node.faults(piece(1, 3, Type.FILE).on_air(node.app.level))
    line = node.line("in fragments").encoded(node.app.level)
    slices = (line[:50], line[50:60], line[60:])
    parts = [Fragment(bytes(8), index, 3, Type.MESSAGE, part).encoded() for index, part in enumerate(slices)]
    for offset, part in enumerate(parts):
        node.give(node.packet(Type.FRAGMENT, part, offset=offset))
        _age(node, 0.6)
    assert not node.app.lines, "the first one had come long before the last, if not before the second"
    for part in parts[:2]:
        node.give(node.packet(Type.FRAGMENT, part, offset=9))
    assert [heard.text for heard in node.app.lines] == ["in fragments"]


def _age(node: Node, share: float) -> None:
    """Lets this part of the timeout of an incomplete set pass."""
    assembly = node.app.assembly
    assembly._sets = {key: (begun - share * assembly.life, held) for key, (begun, held) in assembly._sets.items()}


def _private_files(make: type[App]) -> None:
    """Checks a repeated private file, and the receipt, for which both sides must have announced their support."""
    node = Node(make).met()
    told: list[bytes] = []
    node.app.tell_inside = lambda peer, plaintext: told.append(plaintext)
    name = "img_0A1B2C3D-0000-4000-8000-0123456789AB.jpg"
    payload = File(name, "image/jpeg", b"\xff\xd8\xff").encoded()
    peer = node.app.peers[node.identity.peer_id]
    for able, count in ((None, 0), ({8}, 0), ({8, 9}, 1 if make is IOSApp else 0)):
        peer.capabilities = None if able is None else frozenset(able)
        node.app.files.clear()
        node.app.take_file(peer.id, payload, private=True)
        assert len(told) == count and len(node.app.files) == 1, (able, told)
    assert all(each == b"\x03" + media_id(peer.id, node.app.id, name).encode() for each in told)
    node.app.take_file(peer.id, payload, private=True)
    node.app.take_file(peer.id, File("a.pdf", "application/pdf", b"%PDF").encoded(), private=True)
    assert len(node.app.files) == 2 and len(told) == (2 if make is IOSApp else 0)
    node.app.take_file(peer.id, File("a.pdf", "application/pdf", b"%PDF").encoded(), private=True)
    assert node.app.refused["file twice"] == (1 if make is IOSApp else 2), node.app.refused
    for wrong in ("", "../a", "a/b"):
        try:
            node.app.take_file(peer.id, File(wrong, "application/pdf", b"%PDF").encoded(), private=False)
            raise AssertionError(f"it takes a file with the name {wrong!r}")
        except Malformed:
            pass


def _kept() -> None:
    """An iPhone sends fragments in answer to requests by their ID, and no others; Android stores none."""
    for make, count in ((IOSApp, 1), (AndroidApp, 0)):
        node = Node(make).met()
        for name in (b"one of a", b"one of b"):
            node.give(node.packet(Type.FRAGMENT, Fragment(name, 0, 2, Type.MESSAGE, b"x").encoded()))
        stranger = Node(make)
        stranger.app, stranger.wire = node.app, node.wire
        node.app.links[0].peer = None
        stranger.give(stranger.announce())
        payload = SyncRequest(Filter.of([]), frozenset({5}), None, (b"one of b",)).encoded()
        asked = stranger.packet(Type.REQUEST_SYNC, payload, recipient=node.app.id, ttl=0)
        node.wire.sent.clear()
        stranger.give(asked.signed(stranger.identity.signing, node.app.level))
        found = [packet.payload[:8] for packet in node.wire.sent if packet.type == Type.FRAGMENT]
        assert found == [b"one of b"] * count, (make.kind, found)


def _pings() -> None:
    node = Node(IOSApp).met()
    for number in range(6):
        node.wire.sent.clear()
        asked = node.packet(Type.PING, ping(bytes([number]) * 8, 7), recipient=node.app.id, ttl=5)
        if number == 5:
            node.refuses(asked, "too many pings")
        else:
            node.give(asked)
            assert [packet.payload for packet in node.wire.sent] == [ping(bytes([number]) * 8, 7)]
    nonce = node.app.ping(node.identity.peer_id)
    for wrong, ttl in ((ping(bytes(8), 7), 7), (ping(nonce, 6), 7), (ping(nonce, 8), 7), (nonce, 7)):
        node.faults(node.packet(Type.PONG, wrong, recipient=node.app.id, ttl=ttl).on_air(node.app.level))
    node.give(node.packet(Type.PONG, ping(nonce, 7), recipient=node.app.id, ttl=5))
    assert node.app.pongs == {nonce: 3}
    node.faults(node.packet(Type.PONG, ping(nonce, 7), recipient=node.app.id, ttl=6, offset=9).on_air(node.app.level))
    silent = Node(AndroidApp).met()
    silent.wire.sent.clear()
    silent.give(silent.packet(Type.PING, ping(nonce, 7), recipient=silent.app.id))
    assert not silent.wire.sent, "Android knows no pings"


def _envelopes() -> None:
    node, friend = Node(IOSApp).met(), Identity()
    day, now = node.app.now() // DAY, node.app.now()

    def envelope(number: int, recipient: bytes = friend.noise_key, *, expiry: int = now + DAY, copies: int = 4) -> bytes:
        letter = private_message(f"letter {number}", "hello")
        return Envelope(courier_tag(recipient, day), expiry, seal_for(recipient, node.identity.noise, letter), copies).encoded()

    def signed(payload: bytes, **more: object) -> Packet:
        return node.packet(Type.COURIER, payload, recipient=node.app.id, **more).signed(node.identity.signing, node.app.level)

    first = envelope(1)
    node.refuses(node.packet(Type.COURIER, first, recipient=node.app.id), "envelope without a right signature")
    node.refuses(signed(envelope(1, expiry=now - 1)), "envelope out of its time")
    node.refuses(signed(envelope(1, expiry=now + DAY + 2 * HOUR)), "envelope out of its time")
    node.refuses(signed(first, ttl=6), "envelope of somebody else than a neighbour")
    node.faults(signed(envelope(1, copies=9)).on_air(node.app.level))
    assert not node.app.bag
    node.give(signed(first, offset=1))
    node.refuses(signed(first, offset=2), "envelope twice")
    node.give(signed(envelope(2)))
    node.refuses(signed(envelope(3)), "too many envelopes")
    assert len(node.app.bag) == 2
    own = signed(envelope(4, node.app.identity.noise_key), ttl=5)
    node.give(own)
    assert [heard.message_id for heard in node.app.private] == ["letter 4"], "one for itself comes over hops as well"
    stranger = seal_for(node.app.identity.noise_key, Identity().noise, private_message("letter 5", "hello"))
    tag = courier_tag(node.app.identity.noise_key, day)
    node.refuses(signed(Envelope(tag, now + DAY, stranger).encoded()), "envelope of a stranger")


def _answers() -> None:
    """Accepts the RSR mark only from a peer that was asked; without the mark an old message is too old for an iPhone, but not for
    Android."""
    node = Node(IOSApp).met()
    old = node.line("said before", offset=-3_600_000)
    answer = replace(old, ttl=0, is_rsr=True)
    node.refuses(answer, "answer that was not asked for")
    node.app.request_sync(node.wire)
    node.refuses(replace(old, ttl=0), "clock")
    node.refuses(replace(answer, ttl=1), "answer that was not asked for")
    node.refuses(replace(node.announce(offset=-901_000), ttl=0, is_rsr=True), "announce too old")
    node.give(answer)
    assert [line.text for line in node.app.lines] == ["said before"]
    node = Node(AndroidApp).met()
    node.give(replace(node.line("said before", offset=-3_600_000), ttl=0))
    assert [line.text for line in node.app.lines] == ["said before"]


if __name__ == "__main__":
    asyncio.run(check())
    print("The Bitchat phones refuse what the apps refuse.")
