"""Values in pieces or for others: fragments, files, envelopes, pings (sections 7, 8.5 and 10)."""
from __future__ import annotations

import hmac
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from phones.mesh.noise import Handshake
from phones.mesh.packets import Malformed, Packet, Type
from phones.mesh.values import once, read_tlvs, text, tlv


# Fragments.


@dataclass(frozen=True)
class Fragment:
    id: bytes
    index: int
    total: int
    type: int
    slice: bytes

    def encoded(self) -> bytes:
        return self.id + self.index.to_bytes(2, "big") + self.total.to_bytes(2, "big") + bytes([self.type]) + self.slice

    @classmethod
    def decode(cls, payload: bytes) -> Fragment:
        if len(payload) < 14:
            raise Malformed(f"a fragment of {len(payload)} bytes")
        found = cls(
            payload[:8], int.from_bytes(payload[8:10], "big"), int.from_bytes(payload[10:12], "big"), payload[12], payload[13:]
        )
        if not found.index < found.total <= 10_000:
            raise Malformed(f"fragment {found.index} of {found.total}")
        return found


def fragments(packet: Packet, inner: bytes, size: int, fragment_id: bytes) -> list[Packet]:
    """The packets that carry `inner`, the encoding of `packet`, in slices of `size` bytes."""
    slices = [inner[i : i + size] for i in range(0, len(inner), size)]
    return [
        Packet(
            Type.FRAGMENT, packet.sender, packet.timestamp, Fragment(fragment_id, index, len(slices), packet.type, part).encoded(),
            packet.ttl, packet.recipient, 2 if packet.route else 1, packet.route, is_rsr=packet.is_rsr,
        )
        for index, part in enumerate(slices)
    ]


# Files.

#: The MIME types that the apps accept, and the first bytes of each.
MAGIC: dict[str, tuple[tuple[int, bytes], ...]] = {
    "image/jpeg": ((0, b"\xff\xd8\xff"),),
    "image/png": ((0, b"\x89PNG\r\n\x1a\n"),),
    "image/gif": ((0, b"GIF8"),),
    "image/webp": ((0, b"RIFF"), (8, b"WEBP")),
    "audio/mp4": ((4, b"ftyp"),),
    "audio/mpeg": ((0, b""),),
    "audio/wav": ((0, b"RIFF"), (8, b"WAVE")),
    "audio/ogg": ((0, b"OggS"),),
    "application/pdf": ((0, b"%PDF"),),
    "application/octet-stream": ((0, b""),),
}
LARGEST_FILE = 1 << 20


@dataclass(frozen=True)
class File:
    name: str
    mime: str
    content: bytes

    def encoded(self) -> bytes:
        head = tlv(1, self.name.encode(), 2) + tlv(2, len(self.content).to_bytes(4, "big"), 2) + tlv(3, self.mime.encode(), 2)
        return head + tlv(4, self.content, 4)

    @classmethod
    def decode(cls, data: bytes) -> File:
        """Decodes as the stricter of the two apps: all four fields, a correct size of 4 bytes, a length of 4 bytes."""
        found: dict[int, bytes] = {}
        place = 0
        while place < len(data):
            kind = data[place]
            wide = 4 if kind == 4 else 2
            begin = place + 1 + wide
            end = begin + int.from_bytes(data[place + 1 : begin], "big")
            if begin > len(data) or end > len(data) or kind in found:
                raise Malformed(f"field {kind} of a file")
            found[kind], place = data[begin:end], end
        if not {1, 2, 3, 4} <= found.keys() or len(found[2]) != 4:
            raise Malformed(f"a file with the fields {sorted(found)}")
        if int.from_bytes(found[2], "big") != len(found[4]) or not 0 < len(found[4]) <= LARGEST_FILE:
            raise Malformed(f"a file of {len(found[4])} bytes")
        file = cls(text(found[1]), text(found[3]), found[4])
        if file.mime not in MAGIC:
            raise Malformed(f"a file of type {file.mime}")
        if any(file.content[at : at + len(begins)] != begins for at, begins in MAGIC[file.mime]):
            raise Malformed(f"a file that is no {file.mime}")
        return file


# Couriers and ping.

COURIER_PROLOGUE = b"bitchat-courier-v1"


def courier_tag(noise_key: bytes, day: int) -> bytes:
    return hmac.digest(noise_key, b"bitchat-courier-tag-v1" + day.to_bytes(4, "big"), "sha256")[:16]


@dataclass(frozen=True)
class Envelope:
    tag: bytes
    expiry: int
    sealed: bytes
    copies: int = 1
    prekey: bytes | None = None

    def encoded(self) -> bytes:
        parts = [tlv(1, self.tag, 2), tlv(2, self.expiry.to_bytes(8, "big"), 2), tlv(3, self.sealed, 2)]
        parts.append(tlv(4, bytes([self.copies]), 2))
        if self.prekey is not None:
            parts.append(tlv(5, self.prekey, 2))
        return b"".join(parts)

    @classmethod
    def decode(cls, payload: bytes) -> Envelope:
        found = once(read_tlvs(payload, 2))
        if not {1, 2, 3} <= found.keys() or len(found[1]) != 16 or len(found[2]) != 8 or not 0 < len(found[3]) <= 16 << 10:
            raise Malformed("an envelope without its fields")
        copies = found.get(4, b"\x01")
        if len(copies) != 1 or not 1 <= copies[0] <= 8:
            raise Malformed("an envelope of too many copies")
        return cls(found[1], int.from_bytes(found[2], "big"), found[3], copies[0], found.get(5))


def seal_for(recipient: bytes, sender: X25519PrivateKey, payload: bytes, ephemeral: X25519PrivateKey | None = None) -> bytes:
    """Encrypts for the holder of this Noise key."""
    work = Handshake(True, sender, pattern="X", prologue=COURIER_PROLOGUE, remote=recipient, ephemeral=ephemeral)
    return work.write(payload)


def open_sealed(sealed: bytes, own: X25519PrivateKey) -> tuple[bytes, bytes]:
    """Decrypts; returns the sender's Noise key and the payload."""
    work = Handshake(False, own, pattern="X", prologue=COURIER_PROLOGUE)
    payload = work.read(sealed)
    assert work.remote is not None
    return work.remote, payload


def ping(nonce: bytes, ttl: int) -> bytes:
    return nonce + bytes([ttl])
