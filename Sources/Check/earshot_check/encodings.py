"""base64url, base58 and multibase, each without leniency: one text for one sequence of bytes."""

from __future__ import annotations

import base64
import re

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*\Z")
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS = {character: value for value, character in enumerate(_ALPHABET)}
#: The longest base58 text, in characters: decoding takes quadratic time.
BASE58_LIMIT = 2000


def base64url(text: str) -> bytes:
    """Decodes base64url without padding. Raises ValueError for other characters and for unused bits that are not 0."""
    if not _BASE64URL.match(text) or len(text) % 4 == 1:
        raise ValueError("not base64url")
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_base64url(data) != text:
        raise ValueError("not canonical base64url")
    return data


def to_base64url(data: bytes) -> str:
    """Encodes bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def base58(text: str) -> bytes:
    """Decodes base58 with Bitcoin's alphabet. Raises ValueError for other characters and for long texts."""
    if len(text) > BASE58_LIMIT:
        raise ValueError("too long for base58")
    number = 0
    for character in text:
        value = _DIGITS.get(character)
        if value is None:
            raise ValueError("not base58")
        number = number * 58 + value
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def to_base58(data: bytes) -> str:
    """Encodes bytes as base58 with Bitcoin's alphabet."""
    number = int.from_bytes(data, "big")
    text = ""
    while number:
        number, digit = divmod(number, 58)
        text = _ALPHABET[digit] + text
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def multibase(text: str) -> bytes:
    """Decodes multibase: `z` and base58, or `u` and base64url. Raises ValueError for another base."""
    if text.startswith("z"):
        return base58(text[1:])
    if text.startswith("u"):
        return base64url(text[1:])
    raise ValueError("not multibase of base58 or base64url")
