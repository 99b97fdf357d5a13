"""Status lists: whether an issuer has revoked a credential. Lists are files; nothing is fetched.

Facts: credentials.md section 1.3
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from . import certificates, dates, encodings, jws, jwskeys, strictjson
from .dates import Clock
from .reasons import Finding, Refusal
from .strictjson import Json
from .trust import TrustFolder
from .trustentry import StatusSource, TrustEntry
from .verdict import Status

#: Where `earshot-check status update` stores lists.
FOLDER = Path("/var/lib/earshot-check/status")
#: Maximum length of a stored list, and of one after decompression, in bytes.
FILE_LIMIT = 8 * 1024 * 1024
LIST_LIMIT = 16 * 1024 * 1024
#: Maximum references of one credential.
REFERENCE_LIMIT = 8

_ENTRY_TYPES = {"BitstringStatusListEntry": "BitstringStatusList", "StatusList2021Entry": "StatusList2021"}
_TOKEN_CODES = {0: None, 1: "revoked", 2: "suspended"}


def file_name(url: str) -> str:
    """Returns the name of the file that holds the list of an address."""
    return hashlib.sha256(url.encode()).hexdigest()


@dataclass(frozen=True)
class Reference:
    """A place in a status list. `purpose` is None for a token status list, whose values say what they mean."""

    url: str
    index: int
    purpose: str | None
    list_type: str | None = None


@dataclass(frozen=True)
class StatusChecker:
    """Looks up references in the lists of a folder."""

    folder: Path
    trust: TrustFolder
    clock: Clock

    def look_up(self, references: list[Reference], entry: TrustEntry) -> tuple[Status, list[Finding]]:
        """Returns the status of a credential and what it leads to."""
        found: list[Finding] = []
        dates_: list[datetime] = []
        for reference in references[:REFERENCE_LIMIT]:
            try:
                code, as_of = self._look_up(reference, entry)
            except Refusal as refusal:
                finding = refusal.finding
                why = finding.detail if finding.code == "statusUnknown" else finding.sentence
                found.append(Finding("statusAccepted" if entry.accepts_unknown_status else "statusUnknown", why))
                continue
            dates_.append(as_of)
            if code is not None:
                found.append(Finding(code))
        codes = {finding.code for finding in found}
        if codes & {"revoked", "suspended"}:
            state = "revoked"
        elif found or not references:
            state = "unknown" if found else "none"
        else:
            state = "notRevoked"
        return Status(state, min(dates_, default=None)), found

    def _look_up(self, reference: Reference, entry: TrustEntry) -> tuple[str | None, datetime]:
        source = entry.status_lists.get(reference.url)
        if source is None:
            raise Refusal("statusUnknown", f"the trust entry does not name the list {reference.url}")
        data = self.read(source.url)
        if reference.purpose is None:
            bits, width, as_of = self.token_list(data, source, entry)
            value = _token_value(bits, width, reference.index)
            if value not in _TOKEN_CODES:
                raise Refusal("statusUnknown", f"the list has the value {value}")
            return _TOKEN_CODES[value], as_of
        bits, as_of = self.bitstring_list(data, source, entry, reference)
        if reference.index >= len(bits) * 8:
            raise Refusal("statusUnknown", "the list is too short")
        # Bit 0 is the leftmost of byte 0.
        if not bits[reference.index // 8] >> (7 - reference.index % 8) & 1:
            return None, as_of
        return "suspended" if reference.purpose == "suspension" else "revoked", as_of

    def read(self, url: str) -> bytes:
        """Reads the stored list of an address. Raises Refusal("statusUnknown")."""
        try:
            with (self.folder / file_name(url)).open("rb") as file:
                data = file.read(FILE_LIMIT + 1)
        except OSError:
            raise Refusal("statusUnknown", f"the list {url} was never fetched") from None
        if len(data) > FILE_LIMIT:
            raise Refusal("statusUnknown", "the list is too large")
        return data

    def bitstring_list(
        self, data: bytes, source: StatusSource, entry: TrustEntry, reference: Reference | None = None
    ) -> tuple[bytes, datetime]:
        """Returns the bits of a Bitstring or StatusList2021 credential and when it was signed.

        The list must be of the kind and purpose of a reference, if one is given. Raises Refusal.
        """
        from . import ldpcheck  # PyLD takes long to import, and most credentials need none of it.

        document = strictjson.parse(data)
        if not isinstance(document, dict):
            raise Refusal("statusUnknown", "the list is not a credential")
        verified = ldpcheck.verify(document, self.trust, as_status_list=True)
        subject = document["credentialSubject"]
        if (
            not isinstance(subject, dict)
            or document.get("id") != source.url
            or not ldpcheck.STATUS_LIST_TYPES.intersection(verified.types)
            or (reference and subject.get("type") != reference.list_type)
            or (reference and subject.get("statusPurpose") != reference.purpose)
        ):
            raise Refusal("statusUnknown", "the list is not the one that the credential names")
        self._require_issuer(ldpcheck.issuer_of(document), source, entry)
        signed, (_, until) = verified.signed_at(), verified.period()
        if signed is None:
            raise Refusal("statusUnknown", "the list has no date")
        self._require_fresh(signed, until, source)
        text = subject.get("encodedList")
        if not isinstance(text, str):
            raise Refusal("statusUnknown", "the list has no encodedList")
        # Some lists lack the `u` of multibase. No gzip begins with it: base64url of 1f 8b is H4.
        return _inflated(text.removeprefix("u"), 16 + zlib.MAX_WBITS), signed

    def token_list(self, data: bytes, source: StatusSource, entry: TrustEntry) -> tuple[bytes, int, datetime]:
        """Returns a token status list, the bits of each status, and when it was signed. Raises Refusal."""
        try:
            token = jws.parse(data.decode("ascii").strip())
            payload = strictjson.parse(encodings.base64url(token.payload_text))
        except ValueError:
            raise Refusal("statusUnknown", "the list is not a JWT") from None
        if not isinstance(payload, dict) or not isinstance(payload.get("status_list"), dict):
            raise Refusal("statusUnknown", "the list has no status_list")
        if token.header.get("typ") != "statuslist+jwt" or payload.get("sub") != source.url:
            raise Refusal("statusUnknown", "the list is not the one that the credential names")
        signer = entry
        if source.issuer is not None:
            signer = self.trust.issued_by(source.issuer)[0]
        by = jwskeys.signer(token, signer)
        if late := certificates.findings(by.path, self.clock):
            raise Refusal(late[0].code, late[0].detail)
        signed = dates.from_seconds(payload.get("iat"))
        until = dates.from_optional_seconds(payload.get("exp"))
        self._require_fresh(signed, until, source)
        width, text = payload["status_list"].get("bits"), payload["status_list"].get("lst")
        if width not in (1, 2, 4, 8) or not isinstance(text, str):
            raise Refusal("statusUnknown", "the list is malformed")
        return _inflated(text, zlib.MAX_WBITS), width, signed

    def _require_issuer(self, issuer: str, source: StatusSource, entry: TrustEntry) -> None:
        allowed = {source.issuer} if source.issuer is not None else entry.identifiers
        if issuer not in allowed:
            raise Refusal("statusUnknown", f"the list is signed by {issuer}")

    def _require_fresh(self, signed: datetime, until: datetime | None, source: StatusSource) -> None:
        age = self.clock.now - signed
        if age > source.max_age or age < -dates.SKEW - timedelta(days=1):
            raise Refusal("statusUnknown", f"the list was signed at {dates.text(signed)}")
        if until is not None and self.clock.now > until + dates.SKEW:
            raise Refusal("statusUnknown", f"the list was valid until {dates.text(until)}")


def bitstring_references(value: Json) -> list[Reference]:
    """Reads `credentialStatus`. Raises Refusal("statusUnknown") for a kind that is not supported."""
    if value is None:
        return []
    listed = value if isinstance(value, list) else [value]
    found = []
    for item in listed:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind not in _ENTRY_TYPES:
            raise Refusal("statusUnknown", f"the kind {kind} is not supported")
        index, url, purpose = (item.get(key) for key in ("statusListIndex", "statusListCredential", "statusPurpose"))
        if purpose not in ("revocation", "suspension") or item.get("statusSize", 1) != 1:
            raise Refusal("statusUnknown", f"the purpose {purpose} is not supported")
        if isinstance(index, str) and index.isascii() and index.isdigit() and len(index) < 12:
            index = int(index)
        if not isinstance(url, str) or type(index) is not int or index < 0:
            raise Refusal("statusUnknown", "the reference to the list is malformed")
        found.append(Reference(url, index, purpose, _ENTRY_TYPES[kind]))
    if len(found) > REFERENCE_LIMIT:
        raise Refusal("statusUnknown", f"{len(found)} references to status lists")
    return found


def token_references(value: Json) -> list[Reference]:
    """Reads `status` of a JWT or an mdoc. Raises Refusal("statusUnknown") for a kind that is not supported."""
    if value is None:
        return []
    reference = value.get("status_list") if isinstance(value, dict) else None
    if not isinstance(reference, dict):
        raise Refusal("statusUnknown", "the kind of status is not supported")
    index, url = reference.get("idx"), reference.get("uri")
    if type(index) is not int or index < 0 or not isinstance(url, str):
        raise Refusal("statusUnknown", "the reference to the list is malformed")
    return [Reference(url, index, None)]


def _inflated(text: str, window: int) -> bytes:
    """Decompresses a list, but not beyond LIST_LIMIT. Raises Refusal("statusUnknown")."""
    try:
        inflater = zlib.decompressobj(window)
        data = inflater.decompress(encodings.base64url(text), LIST_LIMIT)
    except (ValueError, zlib.error):
        raise Refusal("statusUnknown", "the list is not compressed text") from None
    if inflater.unconsumed_tail or not inflater.eof:
        raise Refusal("statusUnknown", f"the list has over {LIST_LIMIT} bytes, or ends early")
    return data


def _token_value(bits: bytes, width: int, index: int) -> int:
    """Returns a status of a token list: status 0 is in the least significant bits of byte 0."""
    position = index * width
    if position // 8 >= len(bits):
        raise Refusal("statusUnknown", "the list is too short")
    return bits[position // 8] >> position % 8 & ((1 << width) - 1)
