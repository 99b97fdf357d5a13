"""JSON Web Signatures (RFC 7515) in compact form, attached and detached."""

from __future__ import annotations

from dataclasses import dataclass

from . import encodings, signatures, strictjson
from .keys import PublicKey
from .reasons import Refusal
from .strictjson import Json

#: The longest header, in characters. Certificates take most of it.
HEADER_LIMIT = 64 * 1024


@dataclass(frozen=True)
class CompactJWS:
    """A signature in compact form: header, payload and signature, and the text that was signed."""

    header: dict[str, Json]
    header_text: str
    payload_text: str
    signature: bytes

    @property
    def algorithm(self) -> str:
        """Returns the name of the algorithm; raises Refusal for one that may not be used."""
        return signatures.algorithm(self.header.get("alg"))

    def verify(self, key: PublicKey) -> bool:
        """Says whether the key made the signature over header and payload."""
        message = f"{self.header_text}.{self.payload_text}".encode("ascii")
        return signatures.verify(self.algorithm, key, message, self.signature)

    def verify_detached(self, key: PublicKey, payload: bytes) -> bool:
        """Says whether the key made the signature over the header and a payload as it is, not in base64 (RFC 7797)."""
        message = self.header_text.encode("ascii") + b"." + payload
        return signatures.verify(self.algorithm, key, message, self.signature)


def parse(text: str, understood: frozenset[str] = frozenset()) -> CompactJWS:
    """Parses a compact JWS. `understood` are the critical headers that the caller obeys.

    Raises Refusal: "proofMalformed", "criticalHeader", "algorithmForbidden" or "proofUnsupported".
    """
    parts = text.split(".")
    if len(parts) != 3:
        raise Refusal("proofMalformed", "the JWS does not have three parts")
    if len(parts[0]) > HEADER_LIMIT:
        raise Refusal("proofMalformed", "the header of the JWS is too long")
    try:
        header = strictjson.parse(encodings.base64url(parts[0]))
        signature = encodings.base64url(parts[2])
    except (ValueError, Refusal):
        raise Refusal("proofMalformed", "the JWS is not base64url of JSON and a signature") from None
    if not isinstance(header, dict):
        raise Refusal("proofMalformed", "the header of the JWS is not an object")
    jws = CompactJWS(header, parts[0], parts[1], signature)
    signatures.algorithm(header.get("alg"))
    critical = header.get("crit", [])
    if not isinstance(critical, list) or ("crit" in header and not critical):
        raise Refusal("criticalHeader", "crit is not a list of names")
    for name in critical:
        if name not in understood:
            raise Refusal("criticalHeader", str(name))
    return jws
