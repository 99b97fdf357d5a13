"""Checks the signature of a JSON-LD credential (`ldp_vc`) and what the signature covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from . import coverage, dates, linkeddata, trust, trustentry
from .canonical import Canonicaliser, Dataset
from .contexts import CREDENTIALS_V1, CREDENTIALS_V2, ContextLibrary
from .coverage import Coverage, Path
from .linkeddata import SignedProof
from .reasons import Finding, Refusal
from .strictjson import Json
from .trust import TrustFolder
from .trustentry import Permit, TrustEntry

_BASE_TYPE = "VerifiableCredential"
#: Types of status lists: an issuer that may revoke needs no permit to sign them.
STATUS_LIST_TYPES = frozenset({"BitstringStatusListCredential", "StatusList2021Credential"})

_VOCABULARY = "https://www.w3.org/2018/credentials#"
_RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
#: Properties on which a verdict rests. A signed one must be visible under its own name at the top of the document.
_DECISIVE = (
    "credentialStatus",
    "credentialSubject",
    "expirationDate",
    "issuanceDate",
    "issuer",
    "validFrom",
    "validUntil",
)


@dataclass(frozen=True)
class VerifiedDocument:
    """A JSON-LD document whose signature a trusted issuer made."""

    document: dict[str, Json]
    signed: SignedProof
    entry: TrustEntry
    permit: Permit | None
    types: list[str]
    coverage: Coverage
    findings: list[Finding]

    @property
    def type(self) -> str:
        """Returns the signed types without VerifiableCredential, unless that is the only one."""
        return " ".join(sorted(set(self.types) - {_BASE_TYPE})) or _BASE_TYPE

    def period(self) -> tuple[datetime | None, datetime | None]:
        """Returns the period of validity. Both generations of names count. Raises Refusal("malformed")."""
        begins = [self._date(self.document, name) for name in ("issuanceDate", "validFrom")]
        ends = [self._date(self.document, name) for name in ("expirationDate", "validUntil")]
        ends.append(self._date(self.signed.proof, "expires"))
        return (
            max((date for date in begins if date is not None), default=None),
            min((date for date in ends if date is not None), default=None),
        )

    def signed_at(self) -> datetime | None:
        """Returns the latest date that the issuer signed: that of the proof, or the one from which it is valid."""
        found = [self._date({"created": self.signed.created}, "created"), self.period()[0]]
        return max((date for date in found if date is not None), default=None)

    @staticmethod
    def _date(table: dict[str, Json], name: str) -> datetime | None:
        return None if table.get(name) is None else dates.parse(table[name])

    def claims(self) -> Json:
        """Returns the claims of the subject that are signed and that the permit allows."""
        subject = self.document["credentialSubject"]
        allowed = self.permit.claims if self.permit else frozenset()
        if isinstance(subject, list):
            paths = [("credentialSubject", index) for index in range(len(subject))]
            return [self._claims(item, path, allowed) or {} for item, path in zip(subject, paths, strict=True)]
        return self._claims(subject, ("credentialSubject",), allowed) or {}

    def _claims(self, value: Json, path: Path, allowed: frozenset[str] | None) -> Json:
        """Returns a value without what is not signed, not allowed, or null; None if nothing is left."""
        if isinstance(value, dict):
            return self._members(value, path, allowed) or None
        if isinstance(value, list):
            items = [self._claims(item, (*path, index), allowed) for index, item in enumerate(value)]
            kept = [item for item in items if item is not None]
            if self.signed.is_rdf:
                # JSON-LD lists are sets: repeating a member breaks no signature.
                kept = [item for index, item in enumerate(kept) if item not in kept[:index]]
            return kept or None
        return None if path in self.coverage.unsigned else value

    def _members(self, value: dict[str, Json], path: Path, allowed: frozenset[str] | None) -> dict[str, Json]:
        result = {}
        for key, item in value.items():
            name = coverage.claim_name((*path, key))
            if allowed is None or name in allowed:
                kept = self._claims(item, (*path, key), None)
            elif any(other.startswith(name + ".") for other in allowed):
                kept = self._claims(item, (*path, key), allowed)
            else:
                continue
            if kept is not None:
                result[key] = kept
        return result


def issuer_of(document: dict[str, Json]) -> str:
    """Returns the identifier of the issuer: a text, or the id of an object. Raises Refusal("malformed")."""
    issuer = document.get("issuer")
    if isinstance(issuer, dict):
        issuer = issuer.get("id")
    if not isinstance(issuer, str) or not issuer:
        raise Refusal("malformed", "issuer is missing")
    return issuer


def verify(document: dict[str, Json], folder: TrustFolder, *, as_status_list: bool = False) -> VerifiedDocument:
    """Returns a document whose signature is that of a trusted issuer.

    Raises Refusal. The trust entry is chosen before any cryptography.
    """
    contexts = _contexts(document)
    types = _types(document)
    linkeddata.proofs(document)
    _require_plain_names(document)
    entries = folder.issued_by(issuer_of(document))
    choices: list[tuple[TrustEntry, Permit | None]]
    if as_status_list:
        choices = [(entry, None) for entry in entries]
    else:
        choices = [*trust.permitted(entries, trustentry.LINKED_DATA, types)]
    refusals = []
    for entry, permit in choices:
        try:
            return _verify(document, contexts, types, entry, permit)
        except Refusal as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _verify(
    document: dict[str, Json], contexts: list[Json], types: list[str], entry: TrustEntry, permit: Permit | None
) -> VerifiedDocument:
    library = ContextLibrary(entry.contexts)
    for context in contexts:
        if isinstance(context, str) and library.document(context) is None:
            raise Refusal("contextUnknown", context)
    if permit is not None and not permit.allows_contexts(contexts):
        raise Refusal("contextNotAllowed")
    if permit is None and not all(isinstance(context, str) for context in contexts):
        raise Refusal("contextNotAllowed")
    canonicaliser = Canonicaliser(library)
    signed = linkeddata.verify(document, canonicaliser, entry.key)
    unsigned = {key: value for key, value in document.items() if key != "proof"}
    if not signed.is_rdf:
        return VerifiedDocument(document, signed, entry, permit, types, Coverage(), [])
    _require_nothing_hidden(unsigned, canonicaliser.dataset(unsigned))
    covered = coverage.measure(unsigned, canonicaliser, library)
    signed_types = [name for index, name in enumerate(types) if covered.covers(_type_path(document, index))]
    if permit is not None and not permit.allows_type(signed_types):
        raise Refusal("typeNotAllowed", f"its type is not signed: {', '.join(types)}")
    findings = _findings(covered, entry)
    if permit is None and any(path[0] == "credentialSubject" for path in covered.unsigned):
        raise Refusal("claimsNotSigned", "the status list")
    return VerifiedDocument(document, signed, entry, permit, signed_types, covered, findings)


def _findings(covered: Coverage, entry: TrustEntry) -> list[Finding]:
    if not covered.covers(("issuer",)):
        raise Refusal("claimsNotSigned", "the issuer")
    subject = sorted(coverage.text(path) for path in covered.unsigned if path[0] == "credentialSubject")
    if subject and not entry.drops_uncovered:
        raise Refusal("claimsNotSigned", ", ".join(subject))
    found = []
    if covered.unsigned:
        found.append(Finding("unsignedDropped", ", ".join(sorted(coverage.text(path) for path in covered.unsigned))))
    if covered.interchangeable:
        names = "; ".join(", ".join(group) for group in covered.interchangeable)
        if entry.refuses_interchangeable:
            raise Refusal("interchangeableRefused", names)
        found.append(Finding("claimsInterchangeable", names))
    return found


def _contexts(document: dict[str, Json]) -> list[Json]:
    value = document.get("@context")
    contexts = value if isinstance(value, list) else [value]
    if contexts[:1] not in ([CREDENTIALS_V1], [CREDENTIALS_V2]):
        raise Refusal("malformed", "the first context is not one of W3C's for credentials")
    return contexts


def _types(document: dict[str, Json]) -> list[str]:
    value = document.get("type")
    types = value if isinstance(value, list) else [value]
    names = [name for name in types if isinstance(name, str)]
    if len(names) != len(types) or _BASE_TYPE not in names:
        raise Refusal("malformed", f"type does not contain {_BASE_TYPE}")
    return names


def _type_path(document: dict[str, Json], index: int) -> Path:
    path: Path = ("type", index)
    return path if isinstance(document["type"], list) else path[:1]


def _require_plain_names(document: dict[str, Json]) -> None:
    """Refuses names that are addresses or JSON-LD keywords, and contexts inside the document.

    With them a signed property, such as the expiry, can be written so that only JSON-LD processors see it.
    """
    subject = document.get("credentialSubject")
    if not isinstance(subject, (dict, list)) or not subject:
        raise Refusal("malformed", "credentialSubject is missing")
    pending: list[tuple[Json, bool]] = [(value, key == "proof") for key, value in document.items() if key != "@context"]
    names = [key for key in document if key != "@context"]
    while pending:
        value, is_proof = pending.pop()
        if isinstance(value, list):
            pending.extend((item, is_proof) for item in value)
        elif isinstance(value, dict):
            inner = [key for key in value if not (is_proof and key == "@context")]
            names.extend(inner)
            pending.extend((value[key], False) for key in inner)
    for name in names:
        if name == "@context":
            raise Refusal("contextNotAllowed", "a context inside the document")
        if name.startswith("@") or ":" in name:
            raise Refusal("unsupportedFormat", f"the name {name}, which is an address or a keyword of JSON-LD")


def _require_nothing_hidden(document: dict[str, Json], dataset: Dataset) -> None:
    """Refuses a document with more signed decisive properties than it shows at its top."""
    statements = [statement for graph in dataset.values() for statement in graph]
    nodes = {
        statement["subject"]["value"]
        for statement in statements
        if statement["predicate"]["value"] == _RDF_TYPE and statement["object"]["value"] == _VOCABULARY + _BASE_TYPE
    }
    if len(nodes) != 1:
        raise Refusal("unsupportedFormat", f"{len(nodes)} credentials in one document")
    signed = Counter(
        statement["predicate"]["value"] for statement in statements if statement["subject"]["value"] in nodes
    )
    for name in _DECISIVE:
        if signed[_VOCABULARY + name] > _count(document.get(name)):
            raise Refusal("hiddenProperty", name)


def _count(value: Json) -> int:
    values: Iterable[Json] = value if isinstance(value, list) else [value]
    return sum(1 for item in values if item is not None)
