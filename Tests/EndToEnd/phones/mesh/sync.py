"""Sync requests: the packets that a neighbour has and this phone does not have (section 9)."""
from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from phones.mesh.packets import Malformed, Type
from phones.mesh.values import bits, numbers, once, read_tlvs, tlv


def _hash(packet_id: bytes) -> int:
    return int.from_bytes(hashlib.sha256(packet_id).digest()[:8], "big") & (1 << 63) - 1


def _bucket(packet_id: bytes, modulus: int) -> int:
    return _hash(packet_id) % modulus or 1


@dataclass(frozen=True)
class Filter:
    """A set of packet IDs, coded by Golomb and Rice."""

    parameter: int
    modulus: int
    data: bytes

    @classmethod
    def of(cls, ids: Sequence[bytes], largest: int = 400, rate: float = 0.01) -> Filter:
        """The filter of as many of these IDs, the newest first, as fit into `largest` bytes."""
        parameter = math.ceil(math.log2(1 / rate))
        kept = list(ids)
        while kept:
            modulus = len(kept) << parameter
            data = _code(sorted({_bucket(each, modulus) for each in kept}), parameter)
            if len(data) <= largest:
                return cls(parameter, modulus, data)
            kept = kept[: max(len(kept) * largest // len(data), 1) if len(kept) > 1 else 0]
        return cls(parameter, 1, b"")

    def values(self) -> set[int]:
        stream = "".join(f"{byte:08b}" for byte in self.data)
        found, place, last = set(), 0, 0
        while (zero := stream.find("0", place)) >= 0 and zero + 1 + self.parameter <= len(stream):
            low = stream[zero + 1 : zero + 1 + self.parameter]
            last += ((zero - place) << self.parameter) + int(low, 2) + 1
            if last >= self.modulus:
                break
            found.add(last)
            place = zero + 1 + self.parameter
        return found

    def misses(self, ids: Sequence[bytes]) -> list[bytes]:
        """Those of these IDs that are not in the filter."""
        held = self.values() if self.modulus > 1 else set()
        return [each for each in ids if _bucket(each, self.modulus) not in held]

    def __contains__(self, packet_id: bytes) -> bool:
        return not self.misses([packet_id])


def _code(values: list[int], parameter: int) -> bytes:
    stream, last = [], 0
    for value in values:
        rest = value - last - 1
        stream.append("1" * (rest >> parameter) + "0" + f"{rest & (1 << parameter) - 1:0{parameter}b}")
        last = value
    whole = "".join(stream)
    whole += "0" * (-len(whole) % 8)
    return bytes(int(whole[i : i + 8], 2) for i in range(0, len(whole), 8))


#: Bits of the types in a request.
SYNC_BITS: dict[int, int] = {Type.ANNOUNCE: 0, Type.MESSAGE: 1, Type.LEAVE: 2, Type.FRAGMENT: 5, Type.FILE: 7}


@dataclass(frozen=True)
class SyncRequest:
    filter: Filter
    types: frozenset[int] | None = None
    since: int | None = None
    fragments: tuple[bytes, ...] | None = None

    def encoded(self) -> bytes:
        parts = [
            tlv(1, bytes([self.filter.parameter]), 2), tlv(2, self.filter.modulus.to_bytes(4, "big"), 2),
            tlv(3, self.filter.data, 2),
        ]
        if self.types is not None:
            parts.append(tlv(4, bits(self.types), 2))
        if self.since is not None:
            parts.append(tlv(5, self.since.to_bytes(8, "big"), 2))
        if self.fragments is not None:
            parts.append(tlv(6, b",".join(each.hex().encode() for each in self.fragments), 2))
        return b"".join(parts)

    @classmethod
    def decode(cls, payload: bytes) -> SyncRequest:
        found = once(read_tlvs(payload, 2))
        if not {1, 2, 3} <= found.keys() or len(found[1]) != 1 or len(found[2]) != 4 or len(found[3]) > 1024:
            raise Malformed("a sync request without its filter")
        parameter, modulus = found[1][0], int.from_bytes(found[2], "big")
        if not 1 <= parameter <= 32 or modulus == 0:
            raise Malformed(f"a filter of {parameter} and {modulus}")
        some = found.get(6)
        if some is not None and not re.fullmatch(rb"[0-9a-f]{16}(,[0-9a-f]{16}){0,59}", some):
            raise Malformed("fragment IDs that are none")
        return cls(
            Filter(parameter, modulus, found[3]), numbers(found[4]) if 4 in found else None,
            int.from_bytes(found[5], "big") if 5 in found else None,
            None if some is None else tuple(bytes.fromhex(each.decode()) for each in some.split(b",")),
        )
