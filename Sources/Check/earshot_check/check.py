"""Checks one credential: the steps in their order, cheap ones first.

Facts: credentials.md section 5
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from . import certificates, dates, envelope, jwskeys, mdoc, sdjwt, status, trust, trustentry
from .certificates import Certificate
from .dates import Clock
from .envelope import LinkedDataText, MdocText, SDJWTText
from .jws import CompactJWS
from .reasons import Finding, Refusal
from .status import Reference, StatusChecker
from .strictjson import Json
from .trust import TrustFolder
from .trustentry import Permit, TrustEntry
from .verdict import Result, Status

#: Claims of a JWT that say something about the credential and not about the subject.
_REGISTERED = {"iss", "nbf", "exp", "iat", "vct", "vct#integrity", "cnf", "status", "_sd", "_sd_alg"}


@dataclass(frozen=True)
class Checker:
    """Checks credentials against a trust folder, at a time, with the status lists of a folder."""

    trust: TrustFolder
    clock: Clock
    status_folder: Path = status.FOLDER

    def check(self, data: bytes) -> Result:
        """Returns what is known about the credential in a text. Never raises Refusal."""
        result = Result(checked_at=self.clock.now)
        try:
            match envelope.find(data):
                case LinkedDataText(document):
                    self._check_linked_data(document, result)
                case SDJWTText(text):
                    self._check_sd_jwt(text, result)
                case MdocText(text):
                    self._check_mdoc(text, result)
        except Refusal as refusal:
            result.is_verified = False
            result.findings.insert(0, refusal.finding)
        return result

    def _check_linked_data(self, document: dict[str, Json], result: Result) -> None:
        from . import ldpcheck  # PyLD takes long to import, and the other formats need none of it.

        result.format = trustentry.LINKED_DATA
        result.digest = _digest(json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False))
        verified = ldpcheck.verify(document, self.trust)
        self._accept(result, verified.entry, verified.type, verified.claims(), *verified.period())
        result.findings.extend(verified.findings)
        result.unsigned = sorted(".".join(map(str, path)) for path in verified.coverage.unsigned)
        result.interchangeable = verified.coverage.interchangeable
        if document.get("credentialStatus") is not None and not verified.coverage.covers(("credentialStatus",)):
            result.status = Status("unknown")
            result.findings.append(Finding("statusNotSigned"))
            return
        self._look_up(result, verified.entry, lambda: status.bitstring_references(document.get("credentialStatus")))

    def _check_sd_jwt(self, text: str, result: Result) -> None:
        result.format = trustentry.SD_JWT_VC
        result.digest = _digest(text)
        token = sdjwt.parse(text)
        payload = token.payload
        typ = token.jws.header.get("typ")
        format_ = trustentry.SD_JWT_VC if typ is None else typ
        if format_ not in (trustentry.SD_JWT_VC, trustentry.SD_JWT_DC):
            raise Refusal("unsupportedFormat", f"typ {typ}")
        result.format = format_
        issuer, kind = payload.get("iss"), payload.get("vct")
        if not isinstance(issuer, str) or not isinstance(kind, str):
            raise Refusal("malformed", "iss or vct is missing")
        choices = trust.permitted(self.trust.issued_by(issuer), format_, [kind])
        choices = [choice for choice in choices if typ is not None or choice[1].allows_missing_typ]
        if not choices:
            raise Refusal("formatNotAllowed", "typ is missing")

        entry, permit, path = _first(choices, partial(_signer, token.jws, issuer))
        opened = sdjwt.claims(token)
        begins, ends = (dates.from_optional_seconds(payload.get(name)) for name in ("nbf", "exp"))
        claims = {key: value for key, value in opened.items() if key not in _REGISTERED}
        self._accept(result, entry, kind, _allowed(claims, permit), begins, ends)
        result.findings.extend(certificates.findings(path, self.clock))
        if token.has_key_binding:
            result.findings.append(Finding("keyBindingNotChecked"))
        self._look_up(result, entry, lambda: status.token_references(payload.get("status")))

    def _check_mdoc(self, text: str, result: Result) -> None:
        result.format = trustentry.MDOC
        result.digest = _digest(text)
        document = mdoc.parse(text)
        entries = [entry for entry in self.trust.entries if certificates.leads_to(document.chain, entry.roots)]
        if not entries:
            raise Refusal("issuerUnknown", document.chain[-1].issuer.rfc4514_string())
        choices = trust.permitted(entries, trustentry.MDOC, [document.document_type])

        def signer(entry: TrustEntry) -> list[Certificate]:
            path = certificates.chain(document.chain, entry.roots)
            if not document.verify(path[0].key):
                raise Refusal("signatureWrong")
            return path

        entry, permit, path = _first(choices, signer)
        elements = mdoc.claims(document)
        period = mdoc.validity(document)
        if entry.is_iso:
            mdoc.require_iso(document, period, elements, is_pinned=len(path) == 1)
        else:
            mdoc.require_country(document, elements)
        shown = {space: _allowed(values, permit, f"{space}/") for space, values in elements.items()}
        self._accept(
            result,
            entry,
            document.document_type,
            {space: values for space, values in shown.items() if values},
            period.valid_from,
            period.valid_until,
        )
        result.findings.extend(certificates.findings(path, self.clock))
        self._look_up(result, entry, lambda: status.token_references(document.security_object.get("status")))

    def _accept(
        self,
        result: Result,
        entry: TrustEntry,
        kind: str,
        claims: Json,
        begins: datetime | None,
        ends: datetime | None,
    ) -> None:
        """Notes that a trusted issuer signed the credential, and what the dates say."""
        result.issuer, result.type, result.claims = entry.name, kind, claims
        result.valid_from, result.valid_until = begins, ends
        result.findings.extend(dates.findings(self.clock, begins, ends))
        result.is_verified = True

    def _look_up(self, result: Result, entry: TrustEntry, references: Callable[[], list[Reference]]) -> None:
        checker = StatusChecker(self.status_folder, self.trust, self.clock)
        try:
            result.status, found = checker.look_up(references(), entry)
        except Refusal as refusal:
            code = "statusAccepted" if entry.accepts_unknown_status else "statusUnknown"
            result.status, found = Status("unknown"), [Finding(code, refusal.finding.detail)]
        result.findings.extend(found)


def _signer(token: CompactJWS, issuer: str, entry: TrustEntry) -> list[Certificate]:
    """Returns the certificates of the signer of an SD-JWT, or none where the key is pinned. Raises Refusal."""
    path = jwskeys.signer(token, entry).path
    if path and not certificates.names_issuer(path[0], issuer):
        raise Refusal("certificateName", path[0].name)
    return path


def _first(
    choices: list[tuple[TrustEntry, Permit]], signer: Callable[[TrustEntry], list[Certificate]]
) -> tuple[TrustEntry, Permit, list[Certificate]]:
    """Returns the first entry whose issuer signed, or raises the Refusal of the first."""
    refusals = []
    for entry, permit in choices:
        try:
            return entry, permit, signer(entry)
        except Refusal as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _allowed(claims: dict[str, Json], permit: Permit, prefix: str = "") -> dict[str, Json]:
    """Returns the claims that a permit allows: by name, by `namespace/name`, or by `name.member`."""
    allowed = permit.claims
    if allowed is None:
        return claims
    result: dict[str, Json] = {}
    for name, value in claims.items():
        if name in allowed or prefix + name in allowed:
            result[name] = value
        elif isinstance(value, dict):
            inner = frozenset(other[len(name) + 1 :] for other in allowed if other.startswith(name + "."))
            kept = {key: item for key, item in value.items() if key in inner}
            if kept:
                result[name] = kept
    return result


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
