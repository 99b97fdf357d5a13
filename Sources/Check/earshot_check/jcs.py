"""The JSON Canonicalization Scheme (RFC 8785)."""

from __future__ import annotations

import json
import math

from .reasons import Refusal
from .strictjson import Json

#: The largest integer up to which a double holds every integer.
EXACT = 2**53


def canonical(value: Json) -> bytes:
    """Returns the canonical form in UTF-8.

    Raises Refusal("malformed") for an integer that a double does not hold exactly: signer and checker would see
    different numbers.
    """
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts).encode("utf-8")


def _write(value: Json, parts: list[str]) -> None:
    if value is None:
        parts.append("null")
    elif value is True:
        parts.append("true")
    elif value is False:
        parts.append("false")
    elif isinstance(value, str):
        parts.append(json.dumps(value, ensure_ascii=False))
    elif isinstance(value, (int, float)):
        parts.append(number(value))
    elif isinstance(value, list):
        parts.append("[")
        for index, item in enumerate(value):
            if index:
                parts.append(",")
            _write(item, parts)
        parts.append("]")
    else:
        parts.append("{")
        for index, key in enumerate(sorted(value, key=_units)):
            if index:
                parts.append(",")
            parts.append(json.dumps(key, ensure_ascii=False))
            parts.append(":")
            _write(value[key], parts)
        parts.append("}")


def _units(key: str) -> bytes:
    """Returns the UTF-16 units of a key, by which keys are sorted."""
    return key.encode("utf-16-be")


def number(value: int | float) -> str:
    """Returns a number as ECMAScript writes it."""
    if isinstance(value, int):
        if abs(value) <= EXACT:
            return str(value)
        try:
            double = float(value)
        except OverflowError:
            raise Refusal("malformed", "a number is too large") from None
        if int(double) != value:
            raise Refusal("malformed", "an integer is not exact as a double")
        value = double
    if not math.isfinite(value):
        raise Refusal("malformed", "a number is not finite")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent_text = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    # The position of the decimal point, counted from the first digit that is not 0.
    point = len(whole) + int(exponent_text or "0") - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0") or "0"
    return sign + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    exponent = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return digits[0] + ("." + digits[1:] if count > 1 else "") + exponent
