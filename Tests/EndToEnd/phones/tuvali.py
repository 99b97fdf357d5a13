"""Tuvali's bytes as a wallet sees them, written from the protocol alone, without the service's code."""
from __future__ import annotations

import gzip
import os
import zlib
from dataclasses import dataclass
from enum import Enum
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

ACCEPTED, REJECTED = 0, 1


def short(number: int) -> str:
    """A 16-bit UUID in full."""
    return f"{number:08x}-0000-1000-8000-00805f9b34fb"


@dataclass(frozen=True)
class Dialect:
    """The UUIDs of a generation of the wallet library."""

    name: str
    service: int
    scan_response: int
    identify: str
    response_size: str
    submit_response: str
    report_request: str
    report_response: str
    verification_status: str
    disconnect: str


def _draft(number: int) -> str:
    return f"{number:08x}-5026-444a-9e0e-d6f2450f3a77"


DIALECTS = {
    "0.5": Dialect("0.5", 0x0001, 0x0002, *map(_draft, range(6, 11)), short(0x2037), _draft(0x0B)),
    "0.4": Dialect("0.4", 0xAB29, 0xAB2A, short(0x2030), *map(short, range(0x2033, 0x2039))),
}


@dataclass(frozen=True)
class Invitation:
    """The content of the QR code."""

    name: str
    key: bytes

    @classmethod
    def parse(cls, uri: str) -> Invitation:
        """Takes both spellings, `connect?` and `connect:?`."""
        parts = urlsplit(uri)
        if parts.scheme.upper() != "OPENID4VP" or not parts.netloc.startswith("connect"):
            raise ValueError(f"not a verifier's QR code: {uri}")
        values = parse_qs(parts.query, strict_parsing=True)
        return cls(values["name"][0], bytes.fromhex(values["key"][0]))

    @property
    def service_data(self) -> bytes:
        """The service data of the advertisement that a wallet scans for, byte for byte."""
        return self.name.encode() + b"_" + self.key[:5]


def structures(data: bytes) -> list[tuple[int, bytes]]:
    """The AD structures of an advertisement: (type, content)."""
    found, rest = [], data
    while rest:
        length = rest[0]
        if length == 0 or length >= len(rest):
            raise ValueError(f"a structure of {length} bytes does not fit: {data.hex()}")
        found.append((rest[1], rest[2 : 1 + length]))
        rest = rest[1 + length :]
    return found


def service_data(data: bytes, service: int) -> bytes | None:
    """The service data of a 16-bit service."""
    for kind, content in structures(data):
        if kind == 0x16 and content[:2] == service.to_bytes(2, "little"):
            return content[2:]
    return None


def service_list(data: bytes) -> set[int]:
    """The 16-bit services in the list."""
    return {
        int.from_bytes(content[i : i + 2], "little")
        for kind, content in structures(data)
        if kind in (0x02, 0x03)
        for i in range(0, len(content), 2)
    }


class Session:
    """The keys of one connection. One nonce serves every message, so there is one payload."""

    def __init__(self, verifier_key: bytes, *, private: bytes | None = None, nonce: bytes | None = None) -> None:
        own = X25519PrivateKey.from_private_bytes(private or os.urandom(32))
        self.public = own.public_key().public_bytes_raw()
        self.nonce = nonce or os.urandom(12)
        shared = own.exchange(X25519PublicKey.from_public_bytes(verifier_key))
        self.key = HKDF(algorithm=SHA256(), length=32, salt=b"SHA-256", info=b"SKVerifier").derive(shared)

    @property
    def identify(self) -> bytes:
        return self.nonce + self.public

    def seal(self, text: bytes) -> bytes:
        """The frame: compressed, then encrypted."""
        return AESGCM(self.key).encrypt(self.nonce, gzip.compress(text), None)

    def open(self, frame: bytes) -> bytes:
        return zlib.decompress(AESGCM(self.key).decrypt(self.nonce, frame, None), wbits=31)


def response_size(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big")


def _kermit_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x8408 if value & 1 else 0)
        table.append(value)
    return table


_KERMIT = _kermit_table()


def crc(data: bytes) -> int:
    """CRC-16/KERMIT."""
    value = 0
    for byte in data:
        value = value >> 8 ^ _KERMIT[(value ^ byte) & 0xFF]
    return value


def chunks(frame: bytes, max_data: int) -> list[bytes]:
    """Sequence (from 1), CRC, payload."""
    size = max_data - 4
    parts = [frame[i : i + size] for i in range(0, len(frame), size)]
    return [
        number.to_bytes(2, "big") + crc(part).to_bytes(2, "big") + part for number, part in enumerate(parts, start=1)
    ]


class ReportError(Exception):
    """A report that crashes the original library."""


class ReportKind(Enum):
    MISSING_CHUNKS = 0
    SUCCESS = 1


@dataclass(frozen=True)
class Report:
    kind: ReportKind
    missing: tuple[int, ...] = ()


def android_report(value: bytes) -> Report:
    """Reads a report as the Android wallet does: the number of pages is ignored, an odd last byte dropped."""
    if len(value) < 3:
        raise ReportError(f"index out of bounds: {value.hex()}")
    if value[0] > 1:
        raise ReportError(f"no such type: {value.hex()}")
    return Report(ReportKind(value[0]), _sequences(value))


def ios_report(value: bytes) -> Report:
    """Reads a report as the iOS wallet does, which also traps where chunks are missing and none is listed."""
    if len(value) < 3:
        raise ReportError(f"trap, under three bytes: {value.hex()}")
    if value[0] > 1:
        raise ReportError(f"trap, no such type: {value.hex()}")
    report = Report(ReportKind(value[0]), _sequences(value))
    if report.kind is ReportKind.MISSING_CHUNKS and not report.missing:
        raise ReportError(f"trap, chunks are missing and none is named: {value.hex()}")
    return report


def _sequences(value: bytes) -> tuple[int, ...]:
    body = value[3:]
    return tuple(int.from_bytes(body[i : i + 2], "big") for i in range(0, len(body) - 1, 2))
