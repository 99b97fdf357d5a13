"""CBOR (RFC 8949) read strictly: definite lengths, shortest forms not required, no duplicate keys, bounded depth.

Own code, because cbor2 turns tagged values into objects (dates, regular expressions, e-mail messages) before a caller
can refuse them. cbor2 writes the few bytes that are written, and the tests compare this reader with it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

from .reasons import Refusal

#: Maximum nesting of arrays, maps and tags.
DEPTH_LIMIT = 64
#: Maximum items of a whole document.
ITEM_LIMIT = 50_000

#: A parsed CBOR value: int, bytes, str, list, dict, Tag, bool, None, float or Simple.
Value = Any


@dataclass(frozen=True)
class Tag:
    """A tagged value."""

    number: int
    value: Value


@dataclass(frozen=True)
class Simple:
    """A simple value that has no Python value, such as undefined."""

    number: int


def parse(data: bytes) -> Value:
    """Parses one CBOR item that takes all of the bytes. Raises Refusal("malformed")."""
    reader = _Reader(data)
    value = reader.item(0)
    if reader.position != len(data):
        raise Refusal("malformed", "bytes follow the CBOR item")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0
        self._items = 0

    def _take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self._data):
            raise Refusal("malformed", "CBOR ends early")
        taken = self._data[self.position : end]
        self.position = end
        return taken

    def item(self, depth: int) -> Value:
        """Reads one item."""
        self._items += 1
        if depth > DEPTH_LIMIT:
            raise Refusal("malformed", f"CBOR nested deeper than {DEPTH_LIMIT}")
        if self._items > ITEM_LIMIT:
            raise Refusal("tooComplex", f"over {ITEM_LIMIT} CBOR items")
        first = self._take(1)[0]
        major, info = first >> 5, first & 0x1F
        if major == 7:
            return self._simple(info)
        argument = self._argument(info)
        match major:
            case 0:
                return argument
            case 1:
                return -1 - argument
            case 2:
                return self._take(argument)
            case 3:
                try:
                    return self._take(argument).decode("utf-8")
                except UnicodeDecodeError:
                    raise Refusal("malformed", "CBOR text is not UTF-8") from None
            case 4:
                self._fits(argument)
                return [self.item(depth + 1) for _ in range(argument)]
            case 5:
                return self._map(argument, depth)
            case _:
                return Tag(argument, self.item(depth + 1))

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise Refusal("malformed", "CBOR of indefinite length")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def _fits(self, count: int) -> None:
        if count > len(self._data) - self.position:
            raise Refusal("malformed", "CBOR ends early")

    def _map(self, count: int, depth: int) -> dict[Value, Value]:
        self._fits(count)
        result: dict[Value, Value] = {}
        for _ in range(count):
            key = self.item(depth + 1)
            if isinstance(key, bool) or not isinstance(key, (int, str)):
                raise Refusal("malformed", "a CBOR map has a key that is neither integer nor text")
            if key in result:
                raise Refusal("malformed", "a CBOR map has a key twice")
            result[key] = self.item(depth + 1)
        return result

    def _simple(self, info: int) -> Value:
        match info:
            case 20:
                return False
            case 21:
                return True
            case 22:
                return None
            case 24:
                number = self._take(1)[0]
                if number < 32:
                    raise Refusal("malformed", "a CBOR simple value is not in its short form")
                return Simple(number)
            case 25 | 26 | 27:
                kind = {25: ">e", 26: ">f", 27: ">d"}[info]
                value: float = struct.unpack(kind, self._take(struct.calcsize(kind)))[0]
                if not math.isfinite(value):
                    raise Refusal("malformed", "a CBOR number is not finite")
                return value
            case _ if info < 24:
                return Simple(info)
            case _:
                raise Refusal("malformed", "CBOR of indefinite length")
