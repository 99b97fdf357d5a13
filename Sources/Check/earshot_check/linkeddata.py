"""Proofs of JSON-LD credentials (`ldp_vc`): which bytes each proof type signs, and whether a key signed them.

Signed are two hashes: of the canonical proof options, then of the canonical document without its proofs.
Facts: credentials.md section 1.4
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import encodings, jcs, jws, signatures
from .canonical import Canonicaliser
from .contexts import SECURITY_V3
from .keys import PublicKey
from .reasons import Refusal
from .strictjson import Json

#: Maximum proofs of a credential.
PROOF_LIMIT = 8

#: Proof types with a detached JWS, and the algorithms of each.
_JWS_SUITES = {
    "Ed25519Signature2018": {"EdDSA"},
    "RsaSignature2018": {"PS256", "RS256"},
    "EcdsaSecp256k1Signature2019": {"ES256K"},
    "EcdsaSecp256r1Signature2019": {"ES256"},
}
#: Proof types with a multibase `proofValue`, and the algorithm of each.
_VALUE_SUITES = {"Ed25519Signature2020": "EdDSA", "EcdsaSecp256r1Signature2019": "ES256"}


@dataclass(frozen=True)
class Cryptosuite:
    """A cryptosuite of DataIntegrityProof: whether it canonicalises RDF or JSON, and its algorithms by kind of key."""

    is_rdf: bool
    algorithms: dict[str, tuple[str, str]]


_ECDSA = {"P-256": ("ES256", "sha256"), "P-384": ("ES384", "sha384")}
_EDDSA = {"Ed25519": ("EdDSA", "sha256")}
_CRYPTOSUITES = {
    "eddsa-rdfc-2022": Cryptosuite(True, _EDDSA),
    "eddsa-jcs-2022": Cryptosuite(False, _EDDSA),
    "ecdsa-rdfc-2019": Cryptosuite(True, _ECDSA),
    "ecdsa-jcs-2019": Cryptosuite(False, _ECDSA),
}
_PROOF_VALUES = ("jws", "proofValue", "signatureValue")


@dataclass(frozen=True)
class SignedProof:
    """A proof whose signature is right. `is_rdf` says whether it covers RDF statements or the JSON text itself."""

    proof: dict[str, Json]
    is_rdf: bool
    #: When the proof was made, if the signature covers that: a context may leave it out.
    created: Json


def proofs(document: dict[str, Json]) -> list[dict[str, Json]]:
    """Returns the proofs of a document. Raises Refusal: "proofMissing" or "proofMalformed"."""
    found = document.get("proof")
    listed = found if isinstance(found, list) else [found] if found is not None else []
    if not listed:
        raise Refusal("proofMissing")
    if len(listed) > PROOF_LIMIT:
        raise Refusal("proofMalformed", f"{len(listed)} proofs; {PROOF_LIMIT} are allowed")
    if not all(isinstance(proof, dict) for proof in listed):
        raise Refusal("proofMalformed", "a proof is not an object")
    return listed


def verify(
    document: dict[str, Json],
    canonicaliser: Canonicaliser,
    key_for: Callable[[str], PublicKey],
) -> SignedProof:
    """Returns the first proof of a document that a trusted key made.

    `key_for` returns the key for a verification method, or raises Refusal("keyUnknown"). Where no proof is right, the
    Refusal of the first proof is raised, but a wrong signature before an unknown key or an unsupported proof.
    """
    refusals: list[Refusal] = []
    unsigned = {key: value for key, value in document.items() if key != "proof"}
    for proof in proofs(document):
        try:
            return _Proof(proof, unsigned, canonicaliser).verify(key_for)
        except Refusal as refusal:
            refusals.append(refusal)
    raise min(refusals, key=lambda refusal: refusal.finding.code != "signatureWrong")


class _Proof:
    def __init__(self, proof: dict[str, Json], document: dict[str, Json], canonicaliser: Canonicaliser) -> None:
        self._proof = proof
        self._document = document
        self._canonicaliser = canonicaliser

    def verify(self, key_for: Callable[[str], PublicKey]) -> SignedProof:
        kind = self._proof.get("type")
        if not isinstance(kind, str):
            raise Refusal("proofMalformed", "the proof has no type")
        if self._proof.get("proofPurpose") != "assertionMethod":
            raise Refusal("proofPurpose", str(self._proof.get("proofPurpose")))
        if "previousProof" in self._proof:
            raise Refusal("proofUnsupported", "a proof chain (previousProof)")
        method = self._proof.get("verificationMethod")
        if kind == "DataIntegrityProof":
            return self._verify_data_integrity(method, key_for)
        if kind in _JWS_SUITES and "jws" in self._proof:
            context = self._verify_jws(_JWS_SUITES[kind], self._key(method, key_for))
        elif kind in _VALUE_SUITES:
            context = self._verify_value(_VALUE_SUITES[kind], self._key(method, key_for))
        elif kind in _JWS_SUITES:
            raise Refusal("proofMalformed", f"the {kind} proof has no jws")
        else:
            raise Refusal("proofUnsupported", kind)
        return SignedProof(self._proof, is_rdf=True, created=self._created(context))

    def _key(self, method: Json, key_for: Callable[[str], PublicKey]) -> PublicKey:
        if not isinstance(method, str):
            raise Refusal("proofMalformed", "verificationMethod is not the address of a key")
        return key_for(method)

    def _created(self, context: Json) -> Json:
        """Returns `created` if the canonical options contain it."""
        options = self._options(context)
        changed = {**options, "created": "1970-01-01T00:00:00Z"}
        is_signed = self._canonicaliser.canonical(options) != self._canonicaliser.canonical(changed)
        return options.get("created") if is_signed else None

    def _verify_jws(self, allowed: set[str], key: PublicKey) -> Json:
        """Returns the context of the proof options under which the signature is right. Raises Refusal."""
        text = self._proof["jws"]
        if not isinstance(text, str):
            raise Refusal("proofMalformed", "jws is not text")
        signature = jws.parse(text, frozenset({"b64"}))
        if signature.payload_text:
            raise Refusal("proofMalformed", "the JWS is not detached")
        if signature.algorithm not in allowed:
            raise Refusal("algorithmMismatch", f"{signature.algorithm} in {self._proof['type']}")
        if signature.header.get("b64") is not False or signature.header.get("crit") != ["b64"]:
            raise Refusal("proofMalformed", "the header of the JWS does not declare an unencoded payload (b64)")
        for context, message in self._messages():
            if signature.verify_detached(key, message):
                return context
        raise Refusal("signatureWrong")

    def _verify_value(self, algorithm: str, key: PublicKey) -> Json:
        """Returns the context of the proof options under which the signature is right. Raises Refusal."""
        value = self._value()
        for context, message in self._messages():
            if signatures.verify(algorithm, key, message, value):
                return context
        raise Refusal("signatureWrong")

    def _verify_data_integrity(self, method: Json, key_for: Callable[[str], PublicKey]) -> SignedProof:
        name = self._proof.get("cryptosuite")
        suite = _CRYPTOSUITES.get(name) if isinstance(name, str) else None
        if suite is None:
            raise Refusal("proofUnsupported", f"the cryptosuite {name}")
        key = self._key(method, key_for)
        if key.kind not in suite.algorithms:
            raise Refusal("algorithmMismatch", f"{name} with a key of the kind {key.kind}")
        algorithm, hash_name = suite.algorithms[key.kind]
        context = self._document.get("@context")
        if self._proof.get("@context", context) != context:
            raise Refusal("proofMalformed", "the contexts of proof and document differ")
        options = self._options(context)
        if suite.is_rdf:
            parts = [self._canonicaliser.canonical(part, hash_name).encode() for part in (options, self._document)]
        else:
            parts = [jcs.canonical(part) for part in (options, self._document)]
        message = b"".join(hashlib.new(hash_name, part).digest() for part in parts)
        if not signatures.verify(algorithm, key, message, self._value()):
            raise Refusal("signatureWrong")
        return SignedProof(
            self._proof, suite.is_rdf, self._created(context) if suite.is_rdf else options.get("created")
        )

    def _value(self) -> bytes:
        value = self._proof.get("proofValue")
        if not isinstance(value, str) or not value.startswith("z"):
            raise Refusal("proofMalformed", "proofValue is not multibase of base58")
        try:
            return encodings.multibase(value)
        except ValueError:
            raise Refusal("proofMalformed", "proofValue is not base58") from None

    def _messages(self) -> Iterator[tuple[Json, bytes]]:
        """Yields what an older proof type may sign, with the context of the options: as W3C says, then as MOSIP does.

        MOSIP canonicalises the proof options under a frozen security/v3, not under the context of the document.
        """
        document = hashlib.sha256(self._canonicaliser.canonical(self._document).encode()).digest()
        for context in (self._document.get("@context"), SECURITY_V3):
            options = self._canonicaliser.canonical(self._options(context))
            yield context, hashlib.sha256(options.encode()).digest() + document

    def _options(self, context: Json) -> dict[str, Json]:
        options = {key: value for key, value in self._proof.items() if key not in _PROOF_VALUES}
        return {**options, "@context": context}
