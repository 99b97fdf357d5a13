"""Public keys of issuers, read from the forms in which issuers publish them.

Facts: credentials.md section 1.3
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256K1,
    SECP256R1,
    SECP384R1,
    EllipticCurve,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_der_public_key,
    load_pem_public_key,
)

from . import encodings
from .strictjson import Json

#: Smallest and largest RSA modulus, in bits. A larger one takes long to check.
RSA_LEAST, RSA_MOST = 2048, 8192

_CURVES: dict[str, EllipticCurve] = {"P-256": SECP256R1(), "P-384": SECP384R1(), "secp256k1": SECP256K1()}
_CURVE_NAMES = {"secp256r1": "P-256", "secp384r1": "P-384", "secp256k1": "secp256k1"}
#: Multicodec prefixes of public keys.
_PREFIXES: dict[bytes, str] = {
    b"\xed\x01": "Ed25519",
    b"\x80\x24": "P-256",
    b"\x81\x24": "P-384",
    b"\xe7\x01": "secp256k1",
    b"\x85\x24": "RSA",
}


class KeyProblem(ValueError):
    """Says why something is not a key that can be used."""


@dataclass(frozen=True)
class PublicKey:
    """A public key, and its kind: Ed25519, P-256, P-384, secp256k1 or RSA."""

    kind: str
    key: Ed25519PublicKey | EllipticCurvePublicKey | RSAPublicKey

    @property
    def fingerprint(self) -> str:
        """Returns the SHA-256 of the SubjectPublicKeyInfo, in hexadecimal digits."""
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return hashlib.sha256(der).hexdigest()


def from_object(key: object) -> PublicKey:
    """Returns a key of the cryptography package with its kind. Raises KeyProblem for other kinds and sizes."""
    if isinstance(key, Ed25519PublicKey):
        return PublicKey("Ed25519", key)
    if isinstance(key, EllipticCurvePublicKey):
        kind = _CURVE_NAMES.get(key.curve.name)
        if kind is None:
            raise KeyProblem(f"the curve {key.curve.name} is not supported")
        return PublicKey(kind, key)
    if isinstance(key, RSAPublicKey):
        if not RSA_LEAST <= key.key_size <= RSA_MOST:
            raise KeyProblem(f"an RSA key of {key.key_size} bits; {RSA_LEAST} to {RSA_MOST} are allowed")
        return PublicKey("RSA", key)
    raise KeyProblem(f"keys of the kind {type(key).__name__} are not supported")


def from_pem(text: str) -> PublicKey:
    """Reads PEM. Line ends may be written as a backslash and an n, as some issuers do."""
    text = text.replace("\\r", "").replace("\\n", "\n").replace("\r", "")
    try:
        return from_object(load_pem_public_key(text.encode("ascii")))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise KeyProblem(str(error) if isinstance(error, KeyProblem) else "not a public key in PEM") from None


def from_jwk(jwk: Json) -> PublicKey:
    """Reads a JSON Web Key (RFC 7517)."""
    if not isinstance(jwk, dict):
        raise KeyProblem("the JWK is not an object")
    try:
        match jwk.get("kty"):
            case "OKP" if jwk.get("crv") == "Ed25519":
                return PublicKey("Ed25519", Ed25519PublicKey.from_public_bytes(_bytes(jwk, "x")))
            case "EC" if jwk.get("crv") in _CURVES:
                x, y = (int.from_bytes(_bytes(jwk, name), "big") for name in "xy")
                return from_object(EllipticCurvePublicNumbers(x, y, _CURVES[jwk["crv"]]).public_key())
            case "RSA":
                n, e = (int.from_bytes(_bytes(jwk, name), "big") for name in "ne")
                return from_object(RSAPublicNumbers(e, n).public_key())
    except KeyProblem:
        raise
    except (ValueError, UnsupportedAlgorithm):
        raise KeyProblem("the JWK contains no valid key") from None
    raise KeyProblem(f"a JWK of kty {jwk.get('kty')!r} and crv {jwk.get('crv')!r} is not supported")


def _bytes(jwk: dict[str, Json], name: str) -> bytes:
    value = jwk.get(name)
    if not isinstance(value, str):
        raise KeyProblem(f"the JWK has no {name}")
    return encodings.base64url(value)


def from_multibase(text: str) -> PublicKey:
    """Reads a multibase key with its multicodec prefix, as in `publicKeyMultibase` and in did:key."""
    try:
        data = encodings.multibase(text)
        kind = _PREFIXES.get(data[:2])
        rest = data[2:]
        if kind == "Ed25519":
            return PublicKey(kind, Ed25519PublicKey.from_public_bytes(rest))
        if kind == "RSA":
            return from_object(load_der_public_key(rest) if rest[:1] != b"\x30" else _rsa(rest))
        if kind is not None:
            return from_object(EllipticCurvePublicKey.from_encoded_point(_CURVES[kind], rest))
    except KeyProblem:
        raise
    except (ValueError, UnsupportedAlgorithm):
        raise KeyProblem("the multibase text contains no valid key") from None
    raise KeyProblem("the multibase key has an unknown prefix")


def _rsa(der: bytes) -> object:
    """Reads an RSAPublicKey of PKCS #1, by wrapping it as SubjectPublicKeyInfo."""
    algorithm = bytes.fromhex("300d06092a864886f70d0101010500")
    bits = b"\x03" + _length(len(der) + 1) + b"\0" + der
    return load_der_public_key(b"\x30" + _length(len(algorithm) + len(bits)) + algorithm + bits)


def _length(count: int) -> bytes:
    if count < 0x80:
        return bytes([count])
    encoded = count.to_bytes((count.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(encoded)]) + encoded


def from_verification_method(method: Json) -> PublicKey:
    """Reads the key of a verification method of a DID document, or of a key document: PEM, JWK, multibase or base58."""
    if not isinstance(method, dict):
        raise KeyProblem("a verification method is not an object")
    if isinstance(method.get("publicKeyPem"), str):
        return from_pem(method["publicKeyPem"])
    if "publicKeyJwk" in method:
        return from_jwk(method["publicKeyJwk"])
    if isinstance(method.get("publicKeyMultibase"), str):
        return from_multibase(method["publicKeyMultibase"])
    if isinstance(method.get("publicKeyBase58"), str):
        try:
            return PublicKey("Ed25519", Ed25519PublicKey.from_public_bytes(encodings.base58(method["publicKeyBase58"])))
        except ValueError:
            raise KeyProblem("publicKeyBase58 contains no Ed25519 key") from None
    raise KeyProblem("a verification method has no publicKeyPem, publicKeyJwk or publicKeyMultibase")


def from_did_document(document: Json) -> dict[str, PublicKey]:
    """Returns the keys of a DID document by id. Keys of kinds that are not supported are left out.

    The relationship `assertionMethod` is not checked: 16 of 18 documents that Inji publishes name no key in it.
    Facts: credentials.md section 1.3
    """
    methods = document.get("verificationMethod") if isinstance(document, dict) else None
    if not isinstance(methods, list):
        raise KeyProblem("the DID document has no verificationMethod")
    keys: dict[str, PublicKey] = {}
    for method in methods:
        name = method.get("id") if isinstance(method, dict) else None
        if not isinstance(name, str):
            continue
        if name.startswith("#") and isinstance(document.get("id"), str):
            name = document["id"] + name
        try:
            keys[name] = from_verification_method(method)
        except KeyProblem:
            continue
    return keys
