"""mdoc (ISO 18013-5): the signed object, the digests of the elements, and the two modes of strictness.

Facts: credentials.md section 1.8
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime

import cbor2

from . import cbor, certificates, dates, encodings, signatures
from .cbor import Tag, Value
from .certificates import Certificate
from .keys import PublicKey
from .reasons import Refusal

#: Maximum elements of a document.
ELEMENT_LIMIT = 2000
_HASHES = {"SHA-256": "sha256", "SHA-384": "sha384", "SHA-512": "sha512"}
#: COSE algorithms by number.
_ALGORITHMS = {-7: "ES256", -9: "ES256", -8: "EdDSA", -35: "ES384", -47: "ES256K"}
_LABEL_ALGORITHM, _LABEL_CRITICAL, _LABEL_CHAIN = 1, 2, 33
_TAG_SIGN1, _TAG_DATE_TIME, _TAG_ENCODED, _TAG_FULL_DATE = 18, 0, 24, 1004
#: The extended key usage of a signer of mdocs.
DOCUMENT_SIGNER = "1.0.18013.5.1.2"


@dataclass(frozen=True)
class Mdoc:
    """A parsed mdoc: what the issuer signed, and the elements with the bytes that their digests are made of."""

    outer_type: str | None
    protected: bytes
    algorithm: str
    payload: bytes
    signature: bytes
    chain: list[Certificate]
    security_object: dict[Value, Value]
    elements: dict[str, list[tuple[bytes, dict[Value, Value]]]]
    #: Deviations from ISO 18013-5, which the strict mode refuses.
    deviations: list[str] = field(default_factory=list)

    @property
    def document_type(self) -> str:
        """Returns the document type that the issuer signed."""
        return str(self.security_object["docType"])

    def verify(self, key: PublicKey) -> bool:
        """Says whether a key made the signature."""
        message = cbor2.dumps(["Signature1", self.protected, b"", self.payload])
        return signatures.verify(self.algorithm, key, message, self.signature)


def parse(text: str) -> Mdoc:
    """Parses base64url of an IssuerSigned, of {docType, issuerSigned}, or of a DeviceResponse with one document.

    Raises Refusal: "malformed", "proofMissing", "proofMalformed", "proofUnsupported" or "certificateUnfit".
    """
    try:
        data = encodings.base64url(text)
    except ValueError:
        raise Refusal("malformed", "not base64url") from None
    deviations: list[str] = []
    outer_type, signed = _unwrap(cbor.parse(data))
    elements = _elements(signed.get("nameSpaces"))
    auth = signed.get("issuerAuth")
    if auth is None:
        raise Refusal("proofMissing")
    if isinstance(auth, Tag) and auth.number == _TAG_SIGN1:
        deviations.append("issuerAuth has a tag")
        auth = auth.value
    protected, unprotected, payload, signature = _sign1(auth)
    header = _map(cbor.parse(protected) if protected else {}, "protected header")
    if _LABEL_CRITICAL in header:
        raise Refusal("criticalHeader", "COSE crit")
    number = header.get(_LABEL_ALGORITHM)
    algorithm = _ALGORITHMS.get(number) if isinstance(number, int) else None
    if algorithm is None:
        raise Refusal("proofUnsupported", f"the COSE algorithm {number}")
    return Mdoc(
        outer_type,
        protected,
        algorithm,
        payload,
        signature,
        _chain(unprotected.get(_LABEL_CHAIN, header.get(_LABEL_CHAIN))),
        _security_object(payload, deviations),
        elements,
        deviations,
    )


def _unwrap(value: Value) -> tuple[str | None, dict[Value, Value]]:
    document = _map(value, "document")
    if "documents" in document:
        documents = document["documents"]
        if not isinstance(documents, list) or len(documents) != 1:
            raise Refusal("malformed", "the response does not have exactly one document")
        document = _map(documents[0], "document")
    if "issuerSigned" in document:
        outer = document.get("docType")
        if outer is not None and not isinstance(outer, str):
            raise Refusal("malformed", "docType is not text")
        return outer, _map(document["issuerSigned"], "issuerSigned")
    return None, document


def _map(value: Value, what: str) -> dict[Value, Value]:
    if not isinstance(value, dict):
        raise Refusal("malformed", f"{what} is not a map")
    return value


def _sign1(auth: Value) -> tuple[bytes, dict[Value, Value], bytes, bytes]:
    if not isinstance(auth, list) or len(auth) != 4:
        raise Refusal("proofMalformed", "issuerAuth is not a COSE_Sign1")
    protected, unprotected, payload, signature = auth
    if not isinstance(protected, bytes) or not isinstance(payload, bytes) or not isinstance(signature, bytes):
        raise Refusal("proofMalformed", "issuerAuth is not a COSE_Sign1")
    return protected, _map(unprotected, "unprotected header"), payload, signature


def _chain(value: Value) -> list[Certificate]:
    listed = value if isinstance(value, list) else [value] if value is not None else []
    if not listed:
        raise Refusal("proofMissing", "no certificate")
    if len(listed) > certificates.MOST_CERTIFICATES:
        raise Refusal("chainUntrusted", f"{len(listed)} certificates")
    return [certificates.from_der(der) for der in listed]


def _security_object(payload: bytes, deviations: list[str]) -> dict[Value, Value]:
    value = cbor.parse(payload)
    if isinstance(value, Tag) and value.number == _TAG_ENCODED and isinstance(value.value, bytes):
        value = cbor.parse(value.value)
    else:
        deviations.append("the security object is not wrapped in tag 24")
    security_object = _map(value, "security object")
    if not isinstance(security_object.get("docType"), str):
        raise Refusal("malformed", "the security object has no docType")
    if security_object.get("version") != "1.0":
        deviations.append("version is not 1.0")
    return security_object


def _elements(spaces: Value) -> dict[str, list[tuple[bytes, dict[Value, Value]]]]:
    if spaces is None:
        return {}
    found: dict[str, list[tuple[bytes, dict[Value, Value]]]] = {}
    count = 0
    for name, listed in _map(spaces, "nameSpaces").items():
        if not isinstance(name, str) or not isinstance(listed, list):
            raise Refusal("malformed", "nameSpaces is not a map of arrays")
        count += len(listed)
        if count > ELEMENT_LIMIT:
            raise Refusal("tooComplex", f"over {ELEMENT_LIMIT} elements")
        found[name] = [_element(item) for item in listed]
    return found


def _element(item: Value) -> tuple[bytes, dict[Value, Value]]:
    if not isinstance(item, Tag) or item.number != _TAG_ENCODED or not isinstance(item.value, bytes):
        raise Refusal("malformed", "an element is not wrapped in tag 24")
    element = _map(cbor.parse(item.value), "element")
    if not isinstance(element.get("elementIdentifier"), str) or type(element.get("digestID")) is not int:
        raise Refusal("malformed", "an element has no identifier or digestID")
    if "elementValue" not in element:
        raise Refusal("malformed", "an element has no value")
    # Digests are made of the element with its tag and the head of its byte string, in the shortest form.
    return cbor2.dumps(cbor2.CBORTag(_TAG_ENCODED, item.value)), element


def claims(document: Mdoc) -> dict[str, dict[str, Value]]:
    """Returns the elements by namespace, each checked against the digest that the issuer signed.

    Elements that are not there are not missed: the holder may leave out any.
    Raises Refusal: "digestWrong", "documentTypeMismatch" or "malformed".
    """
    if document.outer_type is not None and document.outer_type != document.document_type:
        raise Refusal("documentTypeMismatch", f"{document.outer_type}; the signed type is {document.document_type}")
    name = document.security_object.get("digestAlgorithm")
    hash_name = _HASHES.get(name) if isinstance(name, str) else None
    if hash_name is None:
        raise Refusal("proofUnsupported", f"the digest algorithm {name}")
    digests = _map(document.security_object.get("valueDigests"), "valueDigests")
    result: dict[str, dict[str, Value]] = {}
    for space, elements in document.elements.items():
        signed = _map(digests.get(space, {}), "valueDigests of a namespace")
        used: set[int] = set()
        for data, element in elements:
            identifier, number = element["elementIdentifier"], element["digestID"]
            if number in used or identifier in result.get(space, {}):
                raise Refusal("malformed", f"the element {identifier} occurs twice")
            used.add(number)
            if signed.get(number) != hashlib.new(hash_name, data).digest():
                raise Refusal("digestWrong", identifier)
            result.setdefault(space, {})[identifier] = _readable(element["elementValue"])
    return result


def _readable(value: Value) -> Value:
    """Writes a CBOR value as JSON: bytes as base64url, dates as text."""
    if isinstance(value, bytes):
        return encodings.to_base64url(value)
    if isinstance(value, Tag):
        return _readable(value.value)
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _readable(item) for key, item in value.items()}
    if isinstance(value, cbor.Simple):
        return None
    return value


@dataclass(frozen=True)
class Validity:
    """The period of validity. `signed` is None where an issuer leaves it out."""

    signed: datetime | None
    valid_from: datetime
    valid_until: datetime


def validity(document: Mdoc) -> Validity:
    """Reads `validityInfo`; notes deviations. Raises Refusal("malformed")."""
    info = _map(document.security_object.get("validityInfo"), "validityInfo")

    def time(name: str) -> datetime | None:
        value = info.get(name)
        if isinstance(value, Tag) and value.number == _TAG_DATE_TIME:
            value = value.value
        elif value is not None:
            document.deviations.append(f"{name} is not a tagged date")
        if value is None:
            document.deviations.append(f"no {name}")
            return None
        if isinstance(value, str) and "." in value:
            document.deviations.append(f"{name} has fractions of a second")
        return dates.parse(value)

    signed, valid_from, valid_until = time("signed"), time("validFrom"), time("validUntil")
    if valid_from is None or valid_until is None:
        raise Refusal("malformed", "validityInfo has no validFrom or validUntil")
    return Validity(signed, valid_from, valid_until)


def require_iso(document: Mdoc, found: Validity, elements: dict[str, dict[str, Value]], *, is_pinned: bool) -> None:
    """Refuses what ISO 18013-5 does not allow: deviations of encoding, and certificates of another purpose.

    Raises Refusal: "notConformant", "certificateUnfit" or "countryMismatch".
    """
    signer = document.chain[0]
    if document.deviations:
        raise Refusal("notConformant", "; ".join(document.deviations))
    if found.signed is None or not signer.not_before <= found.signed <= signer.not_after:
        raise Refusal("notConformant", "it was signed outside of the validity period of the certificate")
    if not is_pinned:
        if DOCUMENT_SIGNER not in signer.purposes:
            raise Refusal("certificateUnfit", f"no extended key usage {DOCUMENT_SIGNER}")
        if signer.constraints is not None and signer.constraints.ca:
            raise Refusal("certificateUnfit", "the signer is a certificate authority")
    require_country(document, elements)


def require_country(document: Mdoc, elements: dict[str, dict[str, Value]]) -> None:
    """Refuses an issuing country that is not the one of the signer's certificate. Raises Refusal("countryMismatch")."""
    country = document.chain[0].country
    for values in elements.values():
        named = values.get("issuing_country")
        if named is not None and named != country:
            raise Refusal("countryMismatch", f"the certificate has {country}")
