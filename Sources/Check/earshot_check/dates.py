"""Times: the clock of a check, and the texts in which credentials write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from . import release
from .reasons import Finding, Refusal
from .strictjson import Json

#: Differences between the clocks of issuer and checker that do not matter.
SKEW = timedelta(minutes=5)

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?\Z")
#: The last second that Python can represent, as seconds since 1970.
_LAST = 253402300799


_ALWAYS = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Clock:
    """The time of a check, and the earliest time that can be right."""

    now: datetime
    earliest: datetime = _ALWAYS

    @staticmethod
    def of_machine() -> Clock:
        """Returns the time of this machine. A machine without a battery-backed clock starts in the past."""
        earliest = datetime.fromisoformat(release.DATE).replace(tzinfo=timezone.utc)
        return Clock(datetime.now(timezone.utc), earliest)

    @property
    def is_set(self) -> bool:
        """Says whether the clock can be right."""
        return self.now >= self.earliest


def parse(value: Json) -> datetime:
    """Reads a time of RFC 3339. A time without a zone is UTC. Raises Refusal("malformed")."""
    match = _TIME.match(value) if isinstance(value, str) else None
    if match is None:
        raise Refusal("malformed", "a date is not of the form 2026-01-31T12:00:00Z")
    zone = match.group(3) or "Z"
    try:
        # Python knows microseconds; nanoseconds are cut off.
        fraction = (match.group(2) or "")[:7]
        return datetime.fromisoformat(match.group(1) + fraction.ljust(7, "0") * bool(fraction) + zone).astimezone(
            timezone.utc
        )
    except (ValueError, OverflowError):
        raise Refusal("malformed", "a date does not exist") from None


def from_seconds(value: Json) -> datetime:
    """Reads a NumericDate: seconds since 1970. Raises Refusal("malformed")."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        raise Refusal("malformed", "a date is not a number of seconds")
    return datetime.fromtimestamp(min(value, _LAST), timezone.utc)


def from_optional_seconds(value: Json) -> datetime | None:
    """Reads a NumericDate that may be absent. Raises Refusal("malformed")."""
    return None if value is None else from_seconds(value)


def text(time: datetime | None) -> str | None:
    """Writes a time for a verdict: UTC, whole seconds."""
    return None if time is None else time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def findings(clock: Clock, valid_from: datetime | None, valid_until: datetime | None) -> list[Finding]:
    """Returns what the period of validity says at the time of the check."""
    if not clock.is_set:
        return [Finding("clockNotSet", f"the clock shows {text(clock.now)}")]
    found = []
    if valid_from is not None and clock.now + SKEW < valid_from:
        found.append(Finding("notYetValid", f"valid from {text(valid_from)}"))
    if valid_until is not None and clock.now - SKEW > valid_until:
        found.append(Finding("expired", f"valid until {text(valid_until)}"))
    return found
