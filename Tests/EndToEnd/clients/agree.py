"""bitchat-protocol 0.2.0, which shares no code with the service, over 10,000 packets.

    agree.py VECTORS FILE

The packets follow from chance with a seed, and `ForeignCodecTests` makes the same: VECTORS has the hash of what both encode, byte
for byte. bitchat-protocol reads each of them back to the fields that it was made of. FILE gets a line for each of some more that
bitchat-protocol compresses, whose bytes are others, and for some of these, with the fields that a reader must find: `HEX JSON`."""
from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from bitchat_protocol.codec import decode, encode
from bitchat_protocol.sync import decode_request_sync, encode_request_sync
from bitchat_protocol.tlv import decode_announcement, decode_private_message, encode_announcement, encode_private_message
from bitchat_protocol.types import AnnouncementPacket, BitchatPacket, PrivateMessagePacket, RequestSyncPacket

_MASK = (1 << 64) - 1


class Dice:
    """The random generator SplitMix64, as in the tests' support."""

    def __init__(self, seed: int) -> None:
        self.state = seed
        self.state = self.next()

    def next(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, limit: int) -> int:
        return self.next() % limit

    def bytes(self, count: int) -> bytes:
        return b"".join(self.next().to_bytes(8, "little") for _ in range((count + 7) // 8))[:count]


TYPES = (0x01, 0x02, 0x03, 0x10, 0x11, 0x20, 0x21, 0x22)


def payload(dice: Dice, kind: int, signing_key: bytes) -> bytes:
    """Random TLVs where the type has some, otherwise incompressible bytes. Each payload is decoded at once."""
    if kind == 0x01:
        name, key = dice.bytes(dice.below(20)).hex(), dice.bytes(32)
        near = [dice.bytes(8) for _ in range(dice.below(11))]
        said = AnnouncementPacket(name, key, signing_key, near or None)
        assert decode_announcement(encode_announcement(said)) == said
        return encode_announcement(said)
    if kind == 0x11:
        message = PrivateMessagePacket(dice.bytes(16).hex(), dice.bytes(dice.below(20)).hex())
        assert decode_private_message(encode_private_message(message)) == message
        return b"\x01" + encode_private_message(message)
    if kind == 0x21:
        p, m, data = 1 + dice.below(32), 1 + dice.below(1 << 31), dice.bytes(dice.below(400))
        types = 1 + dice.below(255) if dice.below(2) else None
        since = dice.below(1 << 41) if dice.below(2) else None
        request = RequestSyncPacket(p, m, data, types, since)
        assert decode_request_sync(encode_request_sync(request)) == request
        return encode_request_sync(request)
    return dice.bytes(dice.below(600))


def packets(seed: int, count: int, signing_key: bytes) -> Iterator[BitchatPacket]:
    dice = Dice(seed)
    for _ in range(count):
        version = 1 + dice.below(2)
        kind = TYPES[dice.below(len(TYPES))]
        ttl = dice.below(8)
        timestamp = dice.below(1 << 42)
        sender = dice.bytes(8)
        recipient = dice.bytes(8) if dice.below(2) else None
        route = [dice.bytes(8) for _ in range(dice.below(5))] if version == 2 else []
        signature = dice.bytes(64) if dice.below(2) else None
        is_rsr = dice.below(4) == 0
        body = payload(dice, kind, signing_key)
        yield BitchatPacket(version, kind, ttl, timestamp, 0, sender, body, recipient, route or None, signature, is_rsr)


def compressed(seed: int, count: int) -> Iterator[BitchatPacket]:
    dice = Dice(seed)
    for _ in range(count):
        body = (b"the relay on the roof is up again " * 40)[: 300 + dice.below(1000)]
        version, timestamp, sender = 1 + dice.below(2), dice.below(1 << 42), dice.bytes(8)
        yield BitchatPacket(version, 0x02, 7, timestamp, 0, sender, body, None, None, dice.bytes(64), False)


def fields(packet: BitchatPacket) -> dict[str, object]:
    """The fields as `earshot mesh decode` names them. The ID is a hash over type, sender, time and payload."""
    text = bytes([packet.type]) + packet.sender_id + packet.timestamp.to_bytes(8, "big") + packet.payload
    found: dict[str, object] = {
        "version": packet.version, "type": packet.type, "timeToLive": packet.ttl, "timestamp": packet.timestamp,
        "sender": packet.sender_id.hex(), "payloadBytes": len(packet.payload), "id": hashlib.sha256(text).hexdigest()[:32],
    }
    if packet.recipient_id is not None:
        found["recipient"] = packet.recipient_id.hex()
    if packet.route:
        found["route"] = [hop.hex() for hop in packet.route]
    if packet.signature is not None:
        found["signature"] = packet.signature.hex()
    if packet.is_rsr:
        found["syncAnswer"] = True
    return found


def read_back(packet: BitchatPacket, wire: bytes) -> None:
    found = decode(wire)
    assert found is not None, wire.hex()
    assert fields(found) == fields(packet) and found.payload == packet.payload, wire.hex()


def main(vectors: Path, file: Path) -> None:
    expected = json.loads(vectors.read_text())
    digest, lines = hashlib.sha256(), []
    chance = packets(expected["seed"], expected["count"], bytes.fromhex(expected["signingKey"]))
    for number, packet in enumerate(chance):
        wire = encode(packet)
        read_back(packet, wire)
        digest.update(len(wire).to_bytes(4, "big") + wire)
        if number % 20 == 0:
            lines.append(f"{wire.hex()} {json.dumps(fields(packet))}\n")
    for packet in compressed(expected["seed"], 500):
        wire = encode(packet)
        read_back(packet, wire)
        assert wire[11] & 0x04, "it was to be compressed"
        lines.append(f"{wire.hex()} {json.dumps(fields(packet))}\n")
    file.write_text("".join(lines))
    print(digest.hexdigest())
    if digest.hexdigest() != expected["sha256"]:
        sys.exit("bitchat-protocol encodes something else than the service")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
