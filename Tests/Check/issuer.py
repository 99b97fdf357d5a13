"""Test issuers: they sign credentials in each format and with each proof, by code of their own.

They share PyLD and cryptography with the checker. The signed bytes are put together here again.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import cbor2
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

from earshot_check import jcs
from earshot_check.canonical import Canonicaliser
from earshot_check.contexts import ContextLibrary
from earshot_check.encodings import to_base58, to_base64url

PrivateKey = Any

#: Kinds of keys that issuers have, with the JOSE algorithm of each.
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES256K": ec.SECP256K1()}


def new_key(algorithm: str) -> PrivateKey:
    """Makes a private key for an algorithm."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm in ("PS256", "RS256"):
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(CURVES[algorithm])


def fixed_key(algorithm: str, number: int) -> PrivateKey:
    """Makes an elliptic-curve key from a number, so that a run can be repeated."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(str(number).encode()).digest())
    return ec.derive_private_key(
        int.from_bytes(hashlib.sha256(str(number).encode()).digest(), "big") >> 8, CURVES[algorithm]
    )


def sign(algorithm: str, key: PrivateKey, message: bytes) -> bytes:
    """Signs a message; ECDSA as r and s."""
    if algorithm == "EdDSA":
        return bytes(key.sign(message))
    if algorithm in ("PS256", "RS256"):
        scheme = padding.PKCS1v15() if algorithm == "RS256" else padding.PSS(padding.MGF1(hashes.SHA256()), 32)
        return bytes(key.sign(message, scheme, hashes.SHA256()))
    used = hashes.SHA384() if algorithm == "ES384" else hashes.SHA256()
    r, s = decode_dss_signature(key.sign(message, ec.ECDSA(used)))
    size = (CURVES[algorithm].key_size + 7) // 8
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def public_pem(key: PrivateKey) -> str:
    """Returns the public key as PEM."""
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def private_pem(key: PrivateKey) -> str:
    """Returns the private key as PEM."""
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode()


def compact(header: dict[str, Any], payload: bytes, algorithm: str, key: PrivateKey) -> str:
    """Returns a compact JWS."""
    head = to_base64url(json.dumps({"alg": algorithm, **header}, separators=(",", ":")).encode())
    body = to_base64url(payload)
    return f"{head}.{body}.{to_base64url(sign(algorithm, key, f'{head}.{body}'.encode()))}"


# JSON-LD.


@dataclass
class LinkedDataIssuer:
    """Signs JSON-LD documents with one proof type. `options_context` replaces the context of the proof options."""

    suite: str
    algorithm: str
    key: PrivateKey
    method: str
    contexts: dict[str, Any]
    options_context: str | None = None
    #: Whether an older proof type that permits both members has `proofValue` instead of `jws`.
    has_proof_value: bool = False
    created: str = "2026-01-01T00:00:00Z"

    def proof(self, document: dict[str, Any], **extra: Any) -> dict[str, Any]:
        """Returns a proof for a document."""
        is_integrity = "-20" in self.suite
        options = {
            "type": "DataIntegrityProof" if is_integrity else self.suite,
            **({"cryptosuite": self.suite} if is_integrity else {}),
            "created": self.created,
            "proofPurpose": "assertionMethod",
            "verificationMethod": self.method,
            **extra,
        }
        context = self.options_context or document["@context"]
        hash_name = "sha384" if self.algorithm == "ES384" else "sha256"
        plain = {key: value for key, value in document.items() if key != "proof"}
        if "-jcs-" in self.suite:
            forms = [jcs.canonical({**options, "@context": context}), jcs.canonical(plain)]
        else:
            canonicaliser = Canonicaliser(ContextLibrary(self.contexts))
            forms = [
                canonicaliser.canonical(part, hash_name).encode() for part in ({**options, "@context": context}, plain)
            ]
        message = b"".join(hashlib.new(hash_name, form).digest() for form in forms)
        if is_integrity or self.suite == "Ed25519Signature2020" or self.has_proof_value:
            return {**options, "proofValue": "z" + to_base58(sign(self.algorithm, self.key, message))}
        head = to_base64url(json.dumps({"alg": self.algorithm, "b64": False, "crit": ["b64"]}).encode())
        signature = sign(self.algorithm, self.key, head.encode() + b"." + message)
        return {**options, "jws": f"{head}..{to_base64url(signature)}"}

    def issue(self, document: dict[str, Any], **extra: Any) -> dict[str, Any]:
        """Returns a signed copy of a document."""
        return {**document, "proof": self.proof(document, **extra)}


#: Every proof type with the algorithms that it takes.
SUITES: list[tuple[str, str]] = [
    ("Ed25519Signature2018", "EdDSA"),
    ("Ed25519Signature2020", "EdDSA"),
    ("RsaSignature2018", "PS256"),
    ("RsaSignature2018", "RS256"),
    ("EcdsaSecp256k1Signature2019", "ES256K"),
    ("EcdsaSecp256r1Signature2019", "ES256"),
    ("eddsa-rdfc-2022", "EdDSA"),
    ("eddsa-jcs-2022", "EdDSA"),
    ("ecdsa-rdfc-2019", "ES256"),
    ("ecdsa-rdfc-2019", "ES384"),
    ("ecdsa-jcs-2019", "ES256"),
    ("ecdsa-jcs-2019", "ES384"),
]


# Certificates.


def certificate(
    name: str,
    key: PrivateKey,
    issuer: tuple[x509.Certificate, PrivateKey] | None = None,
    *,
    is_ca: bool = False,
    signs: bool | None = None,
    begin: datetime = datetime(2025, 1, 1, tzinfo=timezone.utc),
    days: int = 3650,
    purposes: tuple[str, ...] = (),
    names: tuple[x509.GeneralName, ...] = (),
    path_length: int | None = None,
    country: str = "ZZ",
    extra: tuple[tuple[x509.ExtensionType, bool], ...] = (),
) -> x509.Certificate:
    """Makes a certificate, signed by itself where no issuer is given."""
    subject = x509.Name(
        [x509.NameAttribute(NameOID.COUNTRY_NAME, country), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    signer = issuer[1] if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=path_length), critical=True)
        .add_extension(
            x509.KeyUsage(
                not is_ca if signs is None else signs, False, False, False, False, is_ca, is_ca, False, False
            ),
            critical=True,
        )
    )
    if purposes:
        usage = x509.ExtendedKeyUsage([x509.ObjectIdentifier(purpose) for purpose in purposes])
        builder = builder.add_extension(usage, critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    for extension, is_critical in extra:
        builder = builder.add_extension(extension, critical=is_critical)
    is_edwards = isinstance(signer, ed25519.Ed25519PrivateKey)
    return builder.sign(signer, None if is_edwards else hashes.SHA256())


def der(made: x509.Certificate) -> bytes:
    """Returns a certificate as DER."""
    return made.public_bytes(Encoding.DER)


def pem(made: x509.Certificate) -> str:
    """Returns a certificate as PEM."""
    return made.public_bytes(Encoding.PEM).decode()


# SD-JWT.


def disclosure(salt: str, *parts: Any) -> tuple[str, str]:
    """Returns a disclosure and its digest."""
    text = to_base64url(json.dumps([salt, *parts], ensure_ascii=False).encode())
    return text, to_base64url(hashlib.sha256(text.encode()).digest())


def sd_jwt(
    payload: dict[str, Any],
    hidden: dict[str, Any],
    algorithm: str,
    key: PrivateKey,
    *,
    chain: list[x509.Certificate] | None = None,
    kid: str | None = None,
    typ: str | None = "dc+sd-jwt",
) -> str:
    """Returns an SD-JWT with open and selectively disclosable claims, all disclosed."""
    made = [disclosure(f"salt {name}", name, value) for name, value in hidden.items()]
    header: dict[str, Any] = {}
    if typ is not None:
        header["typ"] = typ
    if chain is not None:
        header["x5c"] = [base64.b64encode(der(item)).decode() for item in chain]
    if kid is not None:
        header["kid"] = kid
    body = {**payload, "_sd_alg": "sha-256", "_sd": sorted(digest for _, digest in made)}
    token = compact(header, json.dumps(body, ensure_ascii=False).encode(), algorithm, key)
    return "~".join([token, *(text for text, _ in made), ""])


# mdoc.


def mdoc(
    elements: dict[str, Any],
    chain: list[x509.Certificate],
    algorithm: str,
    key: PrivateKey,
    *,
    document_type: str = "org.iso.18013.5.1.mDL",
    space: str = "org.iso.18013.5.1",
    signed: str = "2026-01-01T00:00:00Z",
    until: str = "2028-01-01T00:00:00Z",
    is_mosip: bool = False,
    status: dict[str, Any] | None = None,
) -> str:
    """Returns an mdoc as base64url: as ISO 18013-5 says, or with the deviations of older Certify."""
    items = []
    digests = {}
    for number, (name, value) in enumerate(elements.items()):
        salt = hashlib.sha256(name.encode()).digest()
        element = {"digestID": number, "random": salt, "elementIdentifier": name, "elementValue": value}
        item = cbor2.CBORTag(24, cbor2.dumps(element))
        digests[number] = hashlib.sha256(cbor2.dumps(item)).digest()
        items.append(item)
    times: dict[str, Any] = {"validFrom": signed, "validUntil": until}
    if is_mosip:
        times = {name: time.replace("Z", ".123Z") for name, time in times.items()}
    else:
        times = {name: cbor2.CBORTag(0, time) for name, time in {"signed": signed, **times}.items()}
    security_object = {
        "version": "1.0",
        "digestAlgorithm": "SHA-256",
        "docType": document_type,
        "valueDigests": {space: digests},
        "deviceKeyInfo": {"deviceKey": {1: 2, -1: 1, -2: b"\1" * 32, -3: b"\2" * 32}},
        "validityInfo": times,
        **({"status": status} if status else {}),
    }
    encoded = cbor2.dumps(security_object)
    payload = encoded if is_mosip else cbor2.dumps(cbor2.CBORTag(24, encoded))
    protected = cbor2.dumps({1: {"ES256": -7, "ES384": -35, "EdDSA": -8, "ES256K": -47}[algorithm]})
    signature = sign(algorithm, key, cbor2.dumps(["Signature1", protected, b"", payload]))
    certificates = [der(item) for item in chain]
    auth: Any = [protected, {33: certificates[0] if len(certificates) == 1 else certificates}, payload, signature]
    if is_mosip:
        auth = cbor2.CBORTag(18, auth)
    return to_base64url(cbor2.dumps({"nameSpaces": {space: items}, "issuerAuth": auth}))
