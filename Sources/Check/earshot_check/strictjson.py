"""JSON as it must be before a signature is worth checking: UTF-8, no duplicate keys, bounded depth, exact numbers."""

from __future__ import annotations

import json
import math
from typing import Any

from .reasons import Refusal

#: A parsed JSON value. Any, because recursive types help no reader here.
Json = Any

#: Maximum nesting of objects and arrays.
DEPTH_LIMIT = 64
#: Maximum digits of an integer: more take long to convert, and no credential needs them.
DIGITS_LIMIT = 400


def parse(data: bytes | str) -> Json:
    """Parses JSON text.

    Raises Refusal("malformed") for text that is not UTF-8 or not JSON, a key that occurs twice in an object, nesting
    over DEPTH_LIMIT, NaN or infinity, a number outside of a double's range, and half of a surrogate pair.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_float=_float,
            parse_int=_int,
        )
    except UnicodeDecodeError:
        raise Refusal("malformed", "it is not UTF-8") from None
    except RecursionError:
        raise Refusal("malformed", f"nested deeper than {DEPTH_LIMIT}") from None
    except ValueError:
        raise Refusal("malformed", "it is not JSON") from None
    _bounded(value)
    return value


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise Refusal("malformed", "a key occurs twice in an object")
    return result


def _constant(text: str) -> Json:
    raise Refusal("malformed", f"{text} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise Refusal("malformed", "a number is too large")
    return value


def _int(text: str) -> int:
    if len(text) > DIGITS_LIMIT:
        raise Refusal("malformed", "a number is too large")
    return int(text)


def _bounded(value: Json) -> None:
    """Refuses what nests too deep, and strings that are not Unicode text. Iterative: no input exhausts the stack."""
    level: list[Json] = [value]
    depth = 0
    while level:
        following: list[Json] = []
        for item in level:
            if isinstance(item, str):
                _text(item)
            elif isinstance(item, dict):
                for key in item:
                    _text(key)
                following.extend(item.values())
            elif isinstance(item, list):
                following.extend(item)
            else:
                continue
            if depth >= DEPTH_LIMIT and isinstance(item, (dict, list)):
                raise Refusal("malformed", f"nested deeper than {DEPTH_LIMIT}")
        level = following
        depth += 1


def _text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise Refusal("malformed", "a string has half of a surrogate pair") from None
