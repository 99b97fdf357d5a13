"""SD-JWT: the issuer's JWT, and the claims that its disclosures add (RFC 9901)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from . import encodings, jws, strictjson
from .jws import CompactJWS
from .reasons import Refusal
from .strictjson import Json

#: Maximum disclosures.
DISCLOSURE_LIMIT = 2000
_HASHES = {"sha-256": "sha256", "sha-384": "sha384", "sha-512": "sha512"}
#: Claims that a disclosure may not add to an SD-JWT VC: they must be signed in the open.
_ALWAYS_OPEN = {"iss", "nbf", "exp", "cnf", "vct", "vct#integrity", "status", "_sd_alg"}


@dataclass(frozen=True)
class SDJWT:
    """A parsed SD-JWT: the JWT, its payload as signed, its disclosures, and whether a key-binding JWT follows."""

    jws: CompactJWS
    payload: dict[str, Json]
    disclosures: list[str]
    has_key_binding: bool


def parse(text: str) -> SDJWT:
    """Parses the compact form. Raises Refusal: "malformed" and those of jws.parse."""
    first, *rest = text.split("~")
    has_key_binding = bool(rest and rest[-1])
    disclosures = rest[:-1]
    if len(disclosures) > DISCLOSURE_LIMIT:
        raise Refusal("tooComplex", f"{len(disclosures)} disclosures; {DISCLOSURE_LIMIT} are allowed")
    signature = jws.parse(first)
    try:
        payload = strictjson.parse(encodings.base64url(signature.payload_text))
    except ValueError:
        raise Refusal("malformed", "the payload is not base64url") from None
    if not isinstance(payload, dict):
        raise Refusal("malformed", "the payload is not an object")
    return SDJWT(signature, payload, disclosures, has_key_binding)


def claims(token: SDJWT) -> dict[str, Json]:
    """Returns the payload with the disclosed claims in their places, without digests.

    Raises Refusal: "malformed"; "disclosureUnused" where a disclosure matches no digest that was signed.
    """
    name = token.payload.get("_sd_alg", "sha-256")
    if not isinstance(name, str) or name not in _HASHES:
        raise Refusal("proofUnsupported", f"the digest algorithm {name}")
    opened = _Disclosures(_HASHES[name], token.disclosures)
    payload = {key: value for key, value in token.payload.items() if key != "_sd_alg"}
    result = opened.place(payload, is_top=True, depth=0)
    opened.finish()
    if not isinstance(result, dict):
        raise Refusal("malformed", "the payload is not an object")
    return result


class _Disclosures:
    """Disclosures by their digest. Each digest may occur once, and each disclosure must be used."""

    def __init__(self, hash_name: str, texts: list[str]) -> None:
        self._by_digest: dict[str, Json] = {}
        self._seen: set[str] = set()
        for text in texts:
            try:
                value = strictjson.parse(encodings.base64url(text))
            except ValueError:
                raise Refusal("malformed", "a disclosure is not base64url") from None
            if not isinstance(value, list) or len(value) not in (2, 3) or not isinstance(value[0], str):
                raise Refusal("malformed", "a disclosure is not an array of two or three members")
            digest = encodings.to_base64url(hashlib.new(hash_name, text.encode("ascii")).digest())
            if digest in self._by_digest:
                raise Refusal("malformed", "a disclosure occurs twice")
            self._by_digest[digest] = value

    def place(self, value: Json, *, is_top: bool, depth: int) -> Json:
        """Returns a value with what the disclosures add to it."""
        if depth > strictjson.DEPTH_LIMIT:
            raise Refusal("malformed", f"nested deeper than {strictjson.DEPTH_LIMIT}")
        if isinstance(value, dict):
            return self._object(value, is_top=is_top, depth=depth)
        if isinstance(value, list):
            return self._array(value, depth)
        return value

    def _object(self, value: dict[str, Json], *, is_top: bool, depth: int) -> dict[str, Json]:
        result: dict[str, Json] = {}
        for key, item in value.items():
            if key == "...":
                raise Refusal("malformed", "a claim has the name ...")
            if key != "_sd":
                result[key] = self.place(item, is_top=False, depth=depth + 1)
        digests = value.get("_sd", [])
        if not isinstance(digests, list):
            raise Refusal("malformed", "_sd is not an array")
        for digest in digests:
            disclosure = self._take(digest, 3)
            if disclosure is None:
                continue
            _, name, item = disclosure
            if not isinstance(name, str) or name in ("_sd", "...") or name in result:
                raise Refusal("malformed", "a disclosure has a name that is taken or reserved")
            if is_top and name in _ALWAYS_OPEN:
                raise Refusal("malformed", f"{name} may not be disclosed selectively")
            result[name] = self.place(item, is_top=False, depth=depth + 1)
        return result

    def _array(self, value: list[Json], depth: int) -> list[Json]:
        result = []
        for item in value:
            if isinstance(item, dict) and "..." in item:
                if len(item) != 1:
                    raise Refusal("malformed", "a digest of an array has neighbours")
                disclosure = self._take(item["..."], 2)
                if disclosure is not None:
                    result.append(self.place(disclosure[1], is_top=False, depth=depth + 1))
            else:
                result.append(self.place(item, is_top=False, depth=depth + 1))
        return result

    def _take(self, digest: Json, length: int) -> list[Json] | None:
        """Returns the disclosure of a digest, or None for a claim that is not disclosed and for a decoy."""
        if not isinstance(digest, str) or digest in self._seen:
            raise Refusal("malformed", "a digest occurs twice or is not text")
        self._seen.add(digest)
        disclosure: list[Json] | None = self._by_digest.pop(digest, None)
        if disclosure is not None and len(disclosure) != length:
            raise Refusal("malformed", "a disclosure has the wrong number of members")
        return disclosure

    def finish(self) -> None:
        """Refuses disclosures that match no signed digest."""
        if self._by_digest:
            raise Refusal("disclosureUnused", f"{len(self._by_digest)} disclosures")
