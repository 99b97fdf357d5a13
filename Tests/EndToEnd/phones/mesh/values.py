"""Payloads of Bitchat packets: announces, private payloads, verification (sections 4, 5 and 11)."""
from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from urllib.parse import parse_qsl, urlencode, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from phones.mesh.packets import Malformed


def read_tlvs(data: bytes, wide: int = 1) -> list[tuple[int, bytes]]:
    """Reads TLVs: types of one byte, lengths of `wide` bytes, big endian."""
    found, place = [], 0
    while place < len(data):
        begin = place + 1 + wide
        end = begin + int.from_bytes(data[place + 1 : begin], "big")
        if begin > len(data) or end > len(data):
            raise Malformed(f"a field of type {data[place]} ends too soon")
        found.append((data[place], data[begin:end]))
        place = end
    return found


def tlv(kind: int, value: bytes, wide: int = 1) -> bytes:
    return bytes([kind]) + len(value).to_bytes(wide, "big") + value


def once(fields: list[tuple[int, bytes]]) -> dict[int, bytes]:
    """The values by type; a repeated type is refused."""
    found = dict(fields)
    if len(found) != len(fields):
        raise Malformed("a field comes twice")
    return found


def text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise Malformed("no UTF-8") from None


# Identities.


class Capability(IntEnum):
    PREKEYS = 0
    GROUPS = 3
    VOUCH = 5
    PRIVATE_MEDIA = 8
    PRIVATE_MEDIA_RECEIPTS = 9


def bits(numbers: Iterable[int]) -> bytes:
    """A bit field, little endian, in its shortest form."""
    value = sum(1 << number for number in set(numbers))
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "little")


def numbers(field_of_bits: bytes) -> frozenset[int]:
    value = int.from_bytes(field_of_bits, "little")
    return frozenset(number for number in range(value.bit_length()) if value >> number & 1)


@dataclass(frozen=True)
class Identity:
    """A phone's two keys; its peer ID is a hash of the one."""

    noise: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)
    signing: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def noise_key(self) -> bytes:
        return self.noise.public_key().public_bytes_raw()

    @property
    def signing_key(self) -> bytes:
        return self.signing.public_key().public_bytes_raw()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.noise_key).hexdigest()

    @property
    def peer_id(self) -> bytes:
        return peer_id(self.noise_key)


def peer_id(noise_key: bytes) -> bytes:
    return hashlib.sha256(noise_key).digest()[:8]


@dataclass(frozen=True)
class Announce:
    nickname: str
    noise_key: bytes
    signing_key: bytes
    neighbours: tuple[bytes, ...] | None = None
    capabilities: frozenset[int] | None = None
    bridge: str | None = None

    def encoded(self, *, neighbours_last: bool = False) -> bytes:
        """Encodes an announce. neighbours_last: Android writes the neighbours after the capabilities."""
        near = b"" if self.neighbours is None else tlv(4, b"".join(self.neighbours[:10]))
        able = b"" if self.capabilities is None else tlv(5, bits(self.capabilities))
        head = tlv(1, self.nickname.encode()) + tlv(2, self.noise_key) + tlv(3, self.signing_key)
        bridge = b"" if self.bridge is None else tlv(6, self.bridge.encode())
        return head + (able + near if neighbours_last else near + able) + bridge

    @classmethod
    def decode(cls, data: bytes) -> Announce:
        """Unknown types are skipped; known types must be valid."""
        found = once(read_tlvs(data))
        if not {1, 2, 3} <= found.keys() or len(found[2]) != 32 or len(found[3]) != 32:
            raise Malformed("an announce without nickname or keys")
        near = found.get(4)
        if near is not None and (len(near) % 8 or len(near) > 80):
            raise Malformed(f"{len(near)} bytes of neighbours")
        able = found.get(5)
        if able is not None and (not able or (len(able) > 1 and able[-1] == 0)):
            raise Malformed("capabilities that are not as short as they can be")
        return cls(
            text(found[1]), found[2], found[3],
            None if near is None else tuple(near[i : i + 8] for i in range(0, len(near), 8)),
            None if able is None else numbers(able), None if 6 not in found else text(found[6]),
        )


# Inside Noise.


class Inside(IntEnum):
    MESSAGE = 0x01
    READ = 0x02
    DELIVERED = 0x03
    CHALLENGE = 0x10
    RESPONSE = 0x11
    FILE = 0x20
    STATE = 0x21


def private_message(message_id: str, content: str) -> bytes:
    return bytes([Inside.MESSAGE]) + tlv(0, message_id.encode()) + tlv(1, content.encode())


def read_private_message(body: bytes) -> tuple[str, str]:
    """Returns ID and text. The apps refuse a message with an unknown field completely."""
    found = once(read_tlvs(body))
    if found.keys() != {0, 1}:
        raise Malformed(f"a private message with the fields {sorted(found)}")
    return text(found[0]), text(found[1])


@dataclass(frozen=True)
class PeerState:
    """A peer's authenticated state: its capabilities and its signing key."""

    capabilities: frozenset[int]
    signing_key: bytes

    def encoded(self) -> bytes:
        return bytes([Inside.STATE, 1]) + tlv(1, bits(self.capabilities)) + tlv(2, self.signing_key)

    @classmethod
    def decode(cls, body: bytes) -> PeerState:
        if body[:1] != b"\x01":
            raise Malformed("a peer state of another version")
        found = once(read_tlvs(body[1:]))
        if not {1, 2} <= found.keys() or len(found[2]) != 32:
            raise Malformed("a peer state without its fields")
        return cls(numbers(found[1]), found[2])


FAVOURITE, NO_FAVOURITE = "[FAVORITED]", "[UNFAVORITED]"


# Verification.


def _counted(parts: Sequence[str]) -> bytes:
    return b"".join(bytes([len(part.encode())]) + part.encode() for part in parts)


@dataclass(frozen=True)
class Code:
    """The QR code that a phone shows."""

    noise_key: bytes
    signing_key: bytes
    nickname: str
    time: int
    nonce: str
    npub: str = ""

    @property
    def canonical(self) -> bytes:
        keys = [self.noise_key.hex(), self.signing_key.hex()]
        return _counted(["bitchat-verify-v1", "1", *keys, self.npub, self.nickname, str(self.time), self.nonce])

    def url(self, signing: Ed25519PrivateKey) -> str:
        fields = {
            "v": "1", "noise": self.noise_key.hex(), "sign": self.signing_key.hex(), "nick": self.nickname, "ts": str(self.time),
            "nonce": self.nonce, "sig": signing.sign(self.canonical).hex(),
        }
        return "bitchat://verify?" + urlencode(fields | ({"npub": self.npub} if self.npub else {}))

    @classmethod
    def parse(cls, url: str, now: float) -> Code:
        """Refuses a code that is not signed by its own key, and one older than five minutes."""
        parts = urlsplit(url)
        fields = dict(parse_qsl(parts.query, strict_parsing=True))
        if (parts.scheme, parts.netloc, fields.get("v")) != ("bitchat", "verify", "1"):
            raise Malformed(f"no verification code: {url[:40]}")
        code = cls(
            bytes.fromhex(fields["noise"]), bytes.fromhex(fields["sign"]), fields["nick"], int(fields["ts"]), fields["nonce"],
            fields.get("npub", ""),
        )
        try:
            Ed25519PublicKey.from_public_bytes(code.signing_key).verify(bytes.fromhex(fields["sig"]), code.canonical)
        except InvalidSignature:
            raise Malformed("a code that its key did not sign") from None
        if abs(now - code.time) > 300:
            raise Malformed("an old code")
        return code


def challenge(noise_key: bytes, nonce: bytes) -> bytes:
    return bytes([Inside.CHALLENGE]) + tlv(1, noise_key.hex().encode()) + tlv(2, nonce)


def proof(noise_key_hex: bytes, nonce: bytes) -> bytes:
    """The signed bytes of the answer to a challenge."""
    return b"bitchat-verify-resp-v1" + bytes([len(noise_key_hex)]) + noise_key_hex + nonce


def response(body: bytes, identity: Identity) -> bytes:
    """The answer to the challenge with this body."""
    found = once(read_tlvs(body))
    if found.get(1) != identity.noise_key.hex().encode() or not found.get(2):
        raise Malformed("a challenge for somebody else")
    signature = identity.signing.sign(proof(found[1], found[2]))
    return bytes([Inside.RESPONSE]) + tlv(1, found[1]) + tlv(2, found[2]) + tlv(3, signature)


def is_proven(body: bytes, noise_key: bytes, nonce: bytes, signing_key: bytes) -> bool:
    found = once(read_tlvs(body))
    if found.get(1) != noise_key.hex().encode() or found.get(2) != nonce:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(signing_key).verify(found.get(3, b""), proof(found[1], nonce))
    except InvalidSignature:
        return False
    return True


def nonce_text(nonce: bytes) -> str:
    return base64.urlsafe_b64encode(nonce).rstrip(b"=").decode()
