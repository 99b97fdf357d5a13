"""The Bitchat phones refuse what the apps refuse. It needs no guest: `python3 -m suites.mesh_strict`."""
from __future__ import annotations

import asyncio
from dataclasses import replace

from phones.mesh.air import MeshLink
from phones.mesh.app import App
from phones.mesh.apps import AndroidApp, IOSApp
from phones.mesh.noise import Handshake
from phones.mesh.packets import Packet, Type, padded
from phones.mesh.parcels import File, Fragment
from phones.mesh.sync import Filter, SyncRequest
from phones.mesh.values import Announce, Identity


class Wire(MeshLink):
    """Keeps what is put into it."""

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
    """The other end: it says what a node would, and what it would not."""

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
    _clocks()
    _fragments()
    _answers()


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


def _answers() -> None:
    """RSR only of who was asked; without it an old line is too old for an iPhone, and for Android it is not."""
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
