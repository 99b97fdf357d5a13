"""Signatures over bytes, by the algorithm names of JOSE."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from .keys import PublicKey
from .reasons import Refusal


@dataclass(frozen=True)
class Algorithm:
    """A signature algorithm: the kinds of key that it takes, and its hash."""

    kinds: frozenset[str]
    hash: HashAlgorithm


ALGORITHMS: dict[str, Algorithm] = {
    "EdDSA": Algorithm(frozenset({"Ed25519"}), SHA512()),
    "Ed25519": Algorithm(frozenset({"Ed25519"}), SHA512()),
    "ES256": Algorithm(frozenset({"P-256"}), SHA256()),
    "ES384": Algorithm(frozenset({"P-384"}), SHA384()),
    "ES256K": Algorithm(frozenset({"secp256k1"}), SHA256()),
    "PS256": Algorithm(frozenset({"RSA"}), SHA256()),
    "RS256": Algorithm(frozenset({"RSA"}), SHA256()),
}


def algorithm(name: object) -> str:
    """Returns the name of a supported algorithm.

    Raises Refusal("algorithmForbidden") for `none` and for HMAC, with which anyone who knows the public key could sign;
    Refusal("proofUnsupported") for others.
    """
    if not isinstance(name, str) or name.lower() == "none" or name.upper().startswith("HS"):
        raise Refusal("algorithmForbidden", str(name))
    if name not in ALGORITHMS:
        raise Refusal("proofUnsupported", f"the algorithm {name}")
    return name


def verify(name: str, key: PublicKey, message: bytes, signature: bytes) -> bool:
    """Says whether the signature is that of the message. An ECDSA signature is r and s, each as long as the curve.

    Raises Refusal("algorithmMismatch") where the key is not one for this algorithm.
    """
    used = ALGORITHMS[name]
    if key.kind not in used.kinds:
        raise Refusal("algorithmMismatch", f"{name} with a key of the kind {key.kind}")
    public = key.key
    try:
        if isinstance(public, Ed25519PublicKey):
            public.verify(signature, message)
        elif isinstance(public, EllipticCurvePublicKey):
            size = (public.curve.key_size + 7) // 8
            if len(signature) != 2 * size:
                return False
            r, s = (int.from_bytes(part, "big") for part in (signature[:size], signature[size:]))
            public.verify(encode_dss_signature(r, s), message, ECDSA(used.hash))
        elif isinstance(public, RSAPublicKey):
            scheme = _pss(used.hash) if name.startswith("PS") else padding.PKCS1v15()
            public.verify(signature, message, scheme, used.hash)
    except InvalidSignature:
        return False
    return True


def _pss(hash_: HashAlgorithm) -> padding.PSS:
    return padding.PSS(padding.MGF1(hash_), hash_.digest_size)
