"""Packets of Bitchat as both apps write and read them (docs/facts/bitchat.md section 2)."""
from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, replace
from enum import IntEnum

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

#: The raw deflate level of each app.
IOS_LEVEL, ANDROID_LEVEL = 5, 6
EVERYBODY = b"\xff" * 8
TTL = 7
#: Maximum size that the apps accept: 1 MiB and the overhead of a file.
LARGEST_PAYLOAD = 1_179_760
_RECIPIENT, _SIGNED, _COMPRESSED, _ROUTED, _RSR = 0x01, 0x02, 0x04, 0x08, 0x10


class Type(IntEnum):
    ANNOUNCE = 0x01
    MESSAGE = 0x02
    LEAVE = 0x03
    COURIER = 0x04
    HANDSHAKE = 0x10
    ENCRYPTED = 0x11
    FRAGMENT = 0x20
    REQUEST_SYNC = 0x21
    FILE = 0x22
    PING = 0x26
    PONG = 0x27


#: Types that are padded; all others are not.
PADDED = {Type.HANDSHAKE, Type.ENCRYPTED}


class Malformed(ValueError):
    """Bytes that are not a valid packet or value of the protocol."""


def padded(data: bytes) -> bytes:
    """Pads to 256, 512, 1024 or 2048 bytes, each byte being the count; returns the bytes unchanged where the count exceeds 255."""
    for block in (256, 512, 1024, 2048):
        if len(data) + 16 <= block:
            count = block - len(data)
            return data + bytes([count]) * count if count <= 255 else data
    return data


def unpadded(data: bytes) -> bytes:
    """Removes valid padding from the end."""
    count = data[-1] if data else 0
    is_padding = 1 <= count <= len(data) and data.endswith(bytes([count]) * count)
    return data[:-count] if is_padding else data


def deflate(payload: bytes, level: int) -> bytes | None:
    """Raw deflate in the cases in which an app compresses; otherwise None."""
    if len(payload) < 100 or len(set(payload)) / min(len(payload), 256) >= 0.9:
        return None
    work = zlib.compressobj(level, zlib.DEFLATED, -15, 8)
    found = work.compress(payload) + work.flush()
    return found if len(found) < len(payload) else None


def inflate(data: bytes, size: int) -> bytes:
    """Inflates to exactly `size` bytes: the apps cut or refuse a longer result, and these phones refuse it."""
    if not data or size > LARGEST_PAYLOAD or size > 50_000 * len(data):
        raise Malformed(f"{len(data)} bytes of deflate for {size}")
    work = zlib.decompressobj(-15)
    try:
        found = work.decompress(data, size + 1)
    except zlib.error as error:
        raise Malformed(f"no raw deflate: {error}") from None
    if len(found) != size or not work.eof:
        raise Malformed(f"deflate of {len(found)} bytes, not {size}")
    return found


@dataclass(frozen=True)
class Packet:
    type: int
    sender: bytes
    timestamp: int
    payload: bytes
    ttl: int = TTL
    recipient: bytes | None = None
    version: int = 1
    route: tuple[bytes, ...] = ()
    signature: bytes | None = None
    is_rsr: bool = False
    #: The payload as received, if it was compressed.
    deflated: bytes | None = None

    # On the wire.

    def encoded(self, level: int, signature: bytes | None = None) -> bytes:
        """The packet without padding; compressed where the app of this level would do so."""
        body = deflate(self.payload, level)
        size = len(self.payload).to_bytes(2 if self.version == 1 else 4, "big")
        return self._laid_out(self.payload if body is None else size + body, body is not None, signature or self.signature)

    def _laid_out(self, section: bytes, compressed: bool, signature: bytes | None) -> bytes:
        routed = bool(self.route) and self.version == 2
        flags = (
            _RECIPIENT * (self.recipient is not None) | _SIGNED * (signature is not None) | _COMPRESSED * compressed
            | _ROUTED * routed | _RSR * self.is_rsr
        )
        return b"".join([
            bytes([self.version, self.type, self.ttl]), self.timestamp.to_bytes(8, "big"), bytes([flags]),
            len(section).to_bytes(2 if self.version == 1 else 4, "big"), self.sender, self.recipient or b"",
            bytes([len(self.route)]) + b"".join(self.route) if routed else b"", section, signature or b"",
        ])

    def on_air(self, level: int) -> bytes:
        """The packet in its form on a link: padded if it is of Noise."""
        data = self.encoded(level)
        return padded(data) if self.type in PADDED else data

    @classmethod
    def decode(cls, data: bytes) -> Packet:
        """Decodes a packet with or without padding. Further bytes are refused, unless they are padding."""
        packet, length = cls._read(data)
        if data[length:] and padded(data[:length]) != data:
            raise Malformed(f"{len(data) - length} bytes after the packet are no padding")
        return packet

    @classmethod
    def measure(cls, data: bytes) -> int | None:
        """The length of the packet that begins here, from its header alone; None while the header is incomplete."""
        if len(data) < 14 or (data[0] == 2 and len(data) < 16):
            return None
        version, flags = data[0], data[11]
        length = int.from_bytes(data[12:14] if version == 1 else data[12:16], "big")
        length += (14 if version == 1 else 16) + 8 + 8 * bool(flags & _RECIPIENT) + 64 * bool(flags & _SIGNED)
        if version == 2 and flags & _ROUTED:
            place = 16 + 8 + 8 * bool(flags & _RECIPIENT)
            if len(data) <= place:
                return None
            length += 1 + 8 * data[place]
        return length

    @classmethod
    def _read(cls, data: bytes) -> tuple[Packet, int]:
        if len(data) < 22 or data[0] not in (1, 2):
            raise Malformed(f"{len(data)} bytes of version {data[:1].hex()}")
        version, flags = data[0], data[11]
        wide = 2 if version == 1 else 4
        place = 12 + wide

        def take(count: int) -> bytes:
            nonlocal place
            if place + count > len(data):
                raise Malformed("it ends too soon")
            place += count
            return data[place - count : place]

        length = int.from_bytes(data[12 : 12 + wide], "big")
        if length > LARGEST_PAYLOAD:
            raise Malformed(f"a payload of {length} bytes")
        sender = take(8)
        recipient = take(8) if flags & _RECIPIENT else None
        route: tuple[bytes, ...] = ()
        if version == 2 and flags & _ROUTED:
            route = tuple(take(8) for _ in range(take(1)[0]))
        payload = section = take(length)
        if flags & _COMPRESSED:
            if length < wide:
                raise Malformed("no size before the deflate")
            payload = inflate(section[wide:], int.from_bytes(section[:wide], "big"))
        signature = take(64) if flags & _SIGNED else None
        packet = cls(
            data[1], sender, int.from_bytes(data[3:11], "big"), payload, data[2], recipient, version, route, signature,
            bool(flags & _RSR), section if flags & _COMPRESSED else None,
        )
        return packet, place

    # The signed bytes, and the packet's ID.

    def preimage(self, level: int | None) -> bytes:
        """The signed bytes: padded, TTL 0, no signature, no RSR.

        level: of the encoder that compresses the payload; None for the payload as received."""
        bare = replace(self, ttl=0, signature=None, is_rsr=False)
        if level is not None:
            return padded(bare.encoded(level))
        return padded(bare._laid_out(self.deflated or self.payload, self.deflated is not None, None))

    def signed(self, key: Ed25519PrivateKey, level: int) -> Packet:
        return replace(self, signature=key.sign(self.preimage(level)))

    def is_signed_by(self, key: bytes, level: int) -> bool:
        """Checks the signature as the apps do: over their own encoding of the payload, whatever bytes were received."""
        if self.signature is None:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(self.signature, self.preimage(level))
        except InvalidSignature:
            return False
        return True

    @property
    def id(self) -> bytes:
        """The packet's ID in a sync filter."""
        text = bytes([self.type]) + self.sender + self.timestamp.to_bytes(8, "big") + self.payload
        return hashlib.sha256(text).digest()[:16]


class Stream:
    """Splits an iPhone's notifications by the length in each header. Padding between packets is skipped; a packet that is incomplete
    after 250 ms is dropped."""

    STALL = 0.25
    MOST = 8 << 20

    def __init__(self) -> None:
        self._waiting = b""
        self._since = 0.0
        #: Descriptions of the dropped packets.
        self.lost: list[str] = []

    def feed(self, data: bytes, now: float) -> list[bytes]:
        """Adds bytes; returns the packets that are complete now."""
        if self._waiting and now - self._since > self.STALL:
            self._drop(f"{len(self._waiting)} bytes of a packet whose end did not come")
        self._waiting += data
        self._since = now
        found = []
        while self._waiting:
            first = self._waiting[0]
            if first not in (1, 2):
                run = len(self._waiting) - len(self._waiting.lstrip(self._waiting[:1]))
                if run > first or run < min(first, len(self._waiting)):
                    self._drop(f"a run of {run} bytes {first} between packets")
                    break
                if run < first:
                    break
                self._waiting = self._waiting[run:]
                continue
            length = Packet.measure(self._waiting)
            if length is not None and length > self.MOST:
                self._drop(f"a packet of {length} bytes")
                break
            if length is None or len(self._waiting) < length:
                break
            found.append(self._waiting[:length])
            self._waiting = self._waiting[length:]
        return found

    def _drop(self, why: str) -> None:
        self._waiting = b""
        self.lost.append(why)

    @property
    def is_clear(self) -> bool:
        return not self._waiting
