"""Services for others that the iOS app has and Android does not: it carries envelopes, and it answers pings (sections 3 and 8.5)."""
from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from phones.mesh import values
from phones.mesh.air import MeshLink, Peer
from phones.mesh.app import App
from phones.mesh.packets import TTL, Malformed, Packet, Type
from phones.mesh.parcels import Envelope, courier_tag, open_sealed, seal_for
from phones.mesh.parcels import ping as ping_payload
from phones.mesh.values import Inside

HOUR = 3_600_000
DAY = 24 * HOUR


@dataclass
class Carried:
    """An envelope in the courier store."""

    envelope: Envelope
    depositor: bytes
    #: Peers that have received some of its copies.
    given: tuple[bytes, ...] = ()


class Mail(App):
    #: Maximum envelopes, per depositor and in total.
    OF_FAVOURITE, OF_OTHER, ENVELOPES = 5, 2, 40
    PINGS, PINGS_FOR = 5, 10.0

    def __init__(self, *arguments: object, **more: object) -> None:
        super().__init__(*arguments, **more)
        self.bag: list[Carried] = []
        #: Hops of the answers, by nonce.
        self.pongs: dict[bytes, int] = {}
        self._asked: dict[bytes, bytes] = {}
        self._pinged: list[float] = []

    def wants(self, packet: Packet) -> bool:
        return packet.recipient == self.id and packet.type in (Type.PING, Type.PONG, Type.COURIER)

    def took(self, link: MeshLink, packet: Packet) -> None:
        match packet.type:
            case Type.COURIER:
                self._take_envelope(link, packet)
            case Type.PING:
                self._take_ping(packet)
            case Type.PONG:
                self._take_pong(packet)

    # Ping.

    def ping(self, peer: bytes) -> bytes:
        """Sends a ping; returns its nonce."""
        nonce = uuid.uuid4().bytes[:8]
        self._asked[nonce] = peer
        self.send(self.packet(Type.PING, ping_payload(nonce, TTL), peer))
        return nonce

    @staticmethod
    def _hops(packet: Packet) -> int:
        if len(packet.payload) != 9 or not 1 <= packet.ttl <= packet.payload[8] <= TTL:
            raise Malformed(f"{packet.payload.hex()} as a ping with a TTL of {packet.ttl}")
        return packet.payload[8] - packet.ttl + 1

    def _take_ping(self, packet: Packet) -> None:
        self._hops(packet)
        now = time.monotonic()
        self._pinged = [at for at in self._pinged if now - at < self.PINGS_FOR]
        if len(self._pinged) >= self.PINGS:
            return self._refuse("too many pings")
        self._pinged.append(now)
        return self.send(self.packet(Type.PONG, ping_payload(packet.payload[:8], TTL), packet.sender))

    def _take_pong(self, packet: Packet) -> None:
        hops, nonce = self._hops(packet), packet.payload[:8]
        if self._asked.pop(nonce, None) != packet.sender:
            raise Malformed("an answer to a ping that was not asked")
        self.pongs[nonce] = hops

    # Couriers.

    def deposit(self, courier: bytes, recipient_key: bytes, content: str) -> str:
        """Deposits a private message for a peer with a neighbour; returns the message's ID."""
        message_id = str(uuid.uuid4()).upper()
        sealed = seal_for(recipient_key, self.identity.noise, values.private_message(message_id, content))
        tag = courier_tag(recipient_key, self.now() // DAY)
        self._give(Envelope(tag, self.now() + DAY, sealed, 4), courier)
        return message_id

    def _give(self, envelope: Envelope, peer: bytes) -> None:
        self.send(self.signed(self.packet(Type.COURIER, envelope.encoded(), peer)))

    def _tags(self, noise_key: bytes) -> Sequence[bytes]:
        return [courier_tag(noise_key, self.now() // DAY + day) for day in (-1, 0, 1)]

    def _take_envelope(self, link: MeshLink, packet: Packet) -> None:
        peer = self.peers.get(packet.sender)
        if peer is None or not packet.is_signed_by(peer.announce.signing_key, self.level):
            return self._refuse("envelope without a right signature")
        envelope = Envelope.decode(packet.payload)
        if not self.now() < envelope.expiry <= self.now() + DAY + HOUR:
            return self._refuse("envelope out of its time")
        if envelope.tag in self._tags(self.identity.noise_key):
            return self._open(packet, envelope)
        if packet.ttl != TTL or link.peer != packet.sender:
            return self._refuse("envelope of somebody else than a neighbour")
        return self._carry(peer, envelope)

    def _open(self, packet: Packet, envelope: Envelope) -> None:
        sender, plaintext = open_sealed(envelope.sealed, self.identity.noise)
        known = self.peers.get(values.peer_id(sender))
        if known is None:
            return self._refuse("envelope of a stranger")
        match plaintext[:1]:
            case b"\x01":
                return self.take_private(known, packet.timestamp, *values.read_private_message(plaintext[1:]))
            case b"\x02" | b"\x03":
                self.receipts[values.text(plaintext[1:])].append("read" if plaintext[0] == Inside.READ else "delivered")
                return None
        raise Malformed(f"an envelope with a payload of type {plaintext[:1].hex()}")

    def _carry(self, peer: Peer, envelope: Envelope) -> None:
        if any(held.envelope.sealed == envelope.sealed for held in self.bag):
            return self._refuse("envelope twice")
        limit = self.OF_FAVOURITE if peer.id in self.favourites and peer.likes_us else self.OF_OTHER
        if sum(held.depositor == peer.id for held in self.bag) >= limit or len(self.bag) >= self.ENVELOPES:
            return self._refuse("too many envelopes")
        self.bag.append(Carried(envelope, peer.id))
        return None

    def hand_over(self, peer: Peer) -> None:
        """Hands envelopes over to an identified neighbour: those for it, and half of the copies of others."""
        tags = self._tags(peer.announce.noise_key)
        for held in list(self.bag):
            if held.envelope.tag in tags:
                self.bag.remove(held)
                self._give(replace(held.envelope, copies=1), peer.id)
            elif held.envelope.copies > 1 and peer.id not in (held.depositor, *held.given):
                given = held.envelope.copies // 2
                held.envelope, held.given = replace(held.envelope, copies=held.envelope.copies - given), (*held.given, peer.id)
                self._give(replace(held.envelope, copies=given), peer.id)
