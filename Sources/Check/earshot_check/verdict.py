"""The verdict: what a check found out, as the JSON object that programs read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import datetime

from . import dates
from .reasons import Finding, Verdict
from .strictjson import Json

#: Maximum length of a verdict, in bytes of UTF-8. earshotd reads no more.
VERDICT_LIMIT = 256 * 1024

_ORDER = list(Verdict)
#: Characters that would act on a terminal, or reverse what is read on it. JSON has an escape for each.
_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class Status:
    """What the status list says: notRevoked, revoked, unknown or none; and when the issuer signed the list."""

    state: str = "none"
    as_of: datetime | None = None


@dataclass
class Result:
    """What a check has found out so far. Nothing is valid until `is_verified` is set."""

    checked_at: datetime
    findings: list[Finding] = field(default_factory=list)
    is_verified: bool = False
    format: str | None = None
    issuer: str | None = None
    type: str | None = None
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    status: Status = Status()
    claims: Json = None
    unsigned: list[str] = field(default_factory=list)
    interchangeable: list[list[str]] = field(default_factory=list)
    digest: str | None = None

    @property
    def verdict(self) -> Verdict:
        """Returns the gravest finding; VALID only if the signature was verified."""
        found = [finding.verdict for finding in self.findings]
        if not self.is_verified and all(verdict is Verdict.VALID for verdict in found):
            found.append(Verdict.UNDECIDED)
        return min(found, key=_ORDER.index, default=Verdict.VALID)

    def text(self) -> str:
        """Returns the verdict as JSON in one line. The largest claims are left out where it would exceed the limit."""
        claims = self.claims if self.is_verified else None
        omitted: list[str] = []
        while True:
            text = self._text(claims, omitted)
            if len(text.encode("utf-8")) <= VERDICT_LIMIT:
                return text
            largest = _largest(claims)
            if largest is None:
                return self._text(None, ["*"])
            claims = _without(claims, largest)
            omitted.append(".".join(largest))

    def _text(self, claims: Json, omitted: list[str]) -> str:
        findings = self.findings + ([Finding("claimsOmitted", ", ".join(omitted))] if omitted else [])
        status: dict[str, Json] = {"state": self.status.state}
        if self.status.as_of is not None:
            status["asOf"] = dates.text(self.status.as_of)
            status["age"] = max(0, int((self.checked_at - self.status.as_of).total_seconds()))
        document = {
            "verdict": self.verdict.value,
            "reasons": [{"code": finding.code, "sentence": finding.sentence} for finding in findings],
            "format": self.format,
            "issuer": self.issuer,
            "type": self.type,
            "validFrom": dates.text(self.valid_from),
            "validUntil": dates.text(self.valid_until),
            "status": status,
            "claims": claims,
            "unsigned": self.unsigned,
            "interchangeable": self.interchangeable,
            "omitted": omitted,
            "holder": "notChecked",
            "digest": self.digest,
            "checkedAt": dates.text(self.checked_at),
        }
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
        return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _largest(claims: Json) -> tuple[str, ...] | None:
    """Returns the path of the claim with the longest JSON: a name, or a namespace and a name where all are objects."""
    if not isinstance(claims, dict) or not claims:
        return None
    name = max(claims, key=lambda key: len(json.dumps(claims[key], ensure_ascii=False)))
    inner = claims[name]
    if isinstance(inner, dict) and len(inner) > 1:
        below = _largest(inner)
        return (name, *below) if below else (name,)
    return (name,)


def _without(claims: Json, path: tuple[str, ...]) -> Json:
    rest = dict(claims)
    if len(path) == 1:
        del rest[path[0]]
    else:
        rest[path[0]] = _without(rest[path[0]], path[1:])
    return rest
