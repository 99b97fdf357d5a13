"""Finds the signer of a JWS: a key of the trust entry by `kid`, or certificates in `x5c` that chain to its root."""

from __future__ import annotations

from dataclasses import dataclass

from . import certificates, encodings
from .certificates import Certificate
from .jws import CompactJWS
from .keys import PublicKey
from .reasons import Refusal
from .signatures import ALGORITHMS
from .strictjson import Json
from .trustentry import TrustEntry


@dataclass(frozen=True)
class Signer:
    """The key that made a signature, and its certificates up to the root; none where the key itself is pinned."""

    key: PublicKey
    path: list[Certificate]


def signer(token: CompactJWS, entry: TrustEntry) -> Signer:
    """Returns the signer. Keys come only from the entry: those that `kid` names, or every key if the JWS names none.

    Raises Refusal: "keyUnknown", "signatureWrong", or that of the chain.
    """
    path = _path(token.header, entry)
    for key in [path[0].key] if path else _pinned(token.header, entry):
        if token.verify(key):
            return Signer(key, path)
    raise Refusal("signatureWrong")


def _path(header: dict[str, Json], entry: TrustEntry) -> list[Certificate]:
    chain = header.get("x5c")
    if chain is None or not entry.roots:
        return []
    return certificates.chain(read_chain(chain), entry.roots)


def read_chain(value: Json) -> list[Certificate]:
    """Reads `x5c`: base64 texts of certificates. Raises Refusal("certificateUnfit")."""
    if not isinstance(value, list) or not 1 <= len(value) <= certificates.MOST_CERTIFICATES:
        raise Refusal("certificateUnfit", f"x5c is not a list of 1 to {certificates.MOST_CERTIFICATES} certificates")
    return [certificates.from_der(_base64(item)) for item in value]


def _pinned(header: dict[str, Json], entry: TrustEntry) -> list[PublicKey]:
    kid = header.get("kid")
    if kid is None and "x5c" not in header and entry.keys:
        return [key for key in entry.keys.values() if _takes(header, key)]
    found = [key for name, key in entry.keys.items() if name == kid or name.endswith(f"#{kid}")]
    if not found:
        raise Refusal("keyUnknown", str(kid) if kid is not None else "the credential names no key")
    return found


def _takes(header: dict[str, Json], key: PublicKey) -> bool:
    used = ALGORITHMS.get(str(header.get("alg")))
    return used is not None and key.kind in used.kinds


def _base64(value: Json) -> bytes:
    if not isinstance(value, str):
        raise Refusal("certificateUnfit", "a certificate in x5c is not text")
    try:
        return encodings.base64url(value.replace("+", "-").replace("/", "_").rstrip("="))
    except ValueError:
        raise Refusal("certificateUnfit", "a certificate in x5c is not base64") from None
