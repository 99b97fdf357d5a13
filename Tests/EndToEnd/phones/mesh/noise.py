"""Noise as Bitchat uses it: XX for sessions, X for couriers, on X25519, ChaCha20-Poly1305 and SHA-256 (section 6)."""
from __future__ import annotations

import hashlib
import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_PATTERNS = {"XX": (("e",), ("e", "ee", "s", "es"), ("s", "se")), "X": (("e", "es", "s", "ss"),)}
SIZES = (32, 96, 64)


class NoiseError(Exception):
    """A message that does not belong to the handshake or the session."""


def _nonce(number: int) -> bytes:
    return bytes(4) + number.to_bytes(8, "little")


def _derive(salt: bytes, secret: bytes) -> tuple[bytes, bytes]:
    """HKDF with two outputs."""
    root = hmac.digest(salt, secret, "sha256")
    first = hmac.digest(root, b"\x01", "sha256")
    return first, hmac.digest(root, first + b"\x02", "sha256")


class Handshake:
    """One side of a handshake. Payloads are empty, except a courier's."""

    def __init__(
        self, initiator: bool, static: X25519PrivateKey, *, pattern: str = "XX", prologue: bytes = b"",
        remote: bytes | None = None, ephemeral: X25519PrivateKey | None = None,
    ) -> None:
        """remote: the other's static key, where it is known in advance (X, initiator)."""
        self.initiator = initiator
        self.static = static
        self.remote = remote
        self._pattern = _PATTERNS[pattern]
        self._ephemeral = ephemeral or X25519PrivateKey.generate()
        self._remote_ephemeral: bytes | None = None
        name = f"Noise_{pattern}_25519_ChaChaPoly_SHA256".encode()
        self.hash = name.ljust(32, b"\0") if len(name) <= 32 else hashlib.sha256(name).digest()
        self._chain = self.hash
        self._key: bytes | None = None
        self._count = 0
        self.step = 0
        self._mix(prologue)
        if pattern == "X":
            self._mix(remote if initiator else static.public_key().public_bytes_raw())

    def _mix(self, data: bytes) -> None:
        self.hash = hashlib.sha256(self.hash + data).digest()

    def _mix_key(self, own: str, other: str) -> None:
        mine = self.static if own == "s" else self._ephemeral
        theirs = self.remote if other == "s" else self._remote_ephemeral
        try:
            shared = mine.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise NoiseError("a key of low order") from None
        self._chain, self._key = _derive(self._chain, shared)
        self._count = 0

    def _seal(self, text: bytes) -> bytes:
        if self._key is None:
            self._mix(text)
            return text
        sealed = ChaCha20Poly1305(self._key).encrypt(_nonce(self._count), text, self.hash)
        self._count += 1
        self._mix(sealed)
        return sealed

    def _open(self, sealed: bytes) -> bytes:
        text = sealed
        if self._key is not None:
            try:
                text = ChaCha20Poly1305(self._key).decrypt(_nonce(self._count), sealed, self.hash)
            except InvalidTag:
                raise NoiseError(f"message {self.step + 1} cannot be opened") from None
            self._count += 1
        self._mix(sealed)
        return text

    def _agree(self, token: str) -> None:
        own, other = token if self.initiator else token[::-1]
        self._mix_key(own, other)

    @property
    def is_over(self) -> bool:
        return self.step == len(self._pattern)

    @property
    def writes(self) -> bool:
        """Whether this side writes the next message."""
        return not self.is_over and (self.step % 2 == 0) == self.initiator

    def write(self, payload: bytes = b"") -> bytes:
        parts = []
        for token in self._pattern[self.step]:
            if token == "e":
                parts.append(self._ephemeral.public_key().public_bytes_raw())
                self._mix(parts[-1])
            elif token == "s":
                parts.append(self._seal(self.static.public_key().public_bytes_raw()))
            else:
                self._agree(token)
        parts.append(self._seal(payload))
        self.step += 1
        return b"".join(parts)

    def read(self, message: bytes) -> bytes:
        rest = message

        def take(count: int) -> bytes:
            nonlocal rest
            if len(rest) < count:
                raise NoiseError(f"message {self.step + 1} has {len(message)} bytes")
            rest, found = rest[count:], rest[:count]
            return found

        for token in self._pattern[self.step]:
            if token == "e":
                self._remote_ephemeral = take(32)
                self._mix(self._remote_ephemeral)
            elif token == "s":
                self.remote = self._open(take(32 if self._key is None else 48))
            else:
                self._agree(token)
        payload = self._open(rest)
        self.step += 1
        return payload

    def split(self) -> tuple[bytes, bytes]:
        """The keys for sending and receiving."""
        first, second = _derive(self._chain, b"")
        return (first, second) if self.initiator else (second, first)


class Session:
    """A session after a handshake; each message is `nonce (4, big endian) .. ciphertext .. tag`.

    The apps lose messages that were overtaken by eight or more (section 6); this session loses every overtaken message."""

    def __init__(self, handshake: Handshake) -> None:
        self._send_key, self._receive_key = handshake.split()
        self.remote = handshake.remote
        self._next = 0
        self._expected = 0

    def seal(self, text: bytes) -> bytes:
        number, self._next = self._next, self._next + 1
        return number.to_bytes(4, "big") + ChaCha20Poly1305(self._send_key).encrypt(_nonce(number), text, None)

    def open(self, message: bytes) -> bytes:
        if len(message) < 20:
            raise NoiseError(f"{len(message)} bytes of ciphertext")
        number = int.from_bytes(message[:4], "big")
        try:
            text = ChaCha20Poly1305(self._receive_key).decrypt(_nonce(number), message[4:], None)
        except InvalidTag:
            raise NoiseError(f"nonce {number} cannot be opened") from None
        if number < self._expected:
            raise NoiseError(f"nonce {number} came late or twice, {self._expected} was next")
        self._expected = number + 1
        return text
