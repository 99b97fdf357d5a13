"""Shared parts of the tests of the checker: the vectors beside a checkout, and trust entries made by hand."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from earshot_check import keys
from earshot_check.certificates import Certificate
from earshot_check.check import Checker
from earshot_check.dates import Clock
from earshot_check.keys import PublicKey
from earshot_check.trust import TrustFolder
from earshot_check.trustentry import Permit, StatusSource, TrustEntry
from earshot_check.verdict import Result

TOP = Path(__file__).resolve().parents[2]
SAMPLES = Path(__file__).resolve().parent / "samples"
#: Published samples, beside a checkout and not in it.
VECTORS = TOP.parent / "shared" / "vectors" / "credentials"
FORMATS = frozenset({"ldp_vc", "vc+sd-jwt", "dc+sd-jwt", "mso_mdoc"})


def need_vectors() -> None:
    """Skips a test where the vectors are not beside the checkout; in CI that is a failure."""
    if VECTORS.is_dir():
        return
    if os.environ.get("CI"):
        pytest.fail(f"no vectors in {VECTORS}")
    pytest.skip(f"no vectors in {VECTORS}")


def vector(name: str) -> bytes:
    """Reads a file of the vectors."""
    need_vectors()
    return (VECTORS / name).read_bytes()


def vector_json(name: str) -> Any:
    """Reads a JSON file of the vectors."""
    return json.loads(vector(name))


def time(text: str) -> datetime:
    """Reads a time, of UTC where it has no zone."""
    value = datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def entry(
    *identifiers: str,
    keys_by_id: dict[str, PublicKey] | None = None,
    roots: list[Certificate] | None = None,
    contexts: dict[str, Any] | None = None,
    permits: list[Permit] | None = None,
    lists: dict[str, timedelta] | None = None,
    name: str = "Test Issuer",
    is_iso: bool = False,
    drops: bool = False,
    refuses_interchangeable: bool = False,
    accepts_unknown_status: bool = False,
) -> TrustEntry:
    """Makes a trust entry that allows every format and type unless told otherwise."""
    pinned = contexts or {}
    return TrustEntry(
        file="test.toml",
        name=name,
        identifiers=frozenset(identifiers),
        keys=keys_by_id or {},
        roots=roots or [],
        permits=permits or [Permit(FORMATS, frozenset(), None, None)],
        contexts=pinned,
        status_lists={url: StatusSource(url, age, None) for url, age in (lists or {}).items()},
        is_iso=is_iso,
        drops_uncovered=drops,
        refuses_interchangeable=refuses_interchangeable,
        accepts_unknown_status=accepts_unknown_status,
    )


def check(data: bytes | str, entries: list[TrustEntry], at: str, status_folder: Path = Path("/nonexistent")) -> Result:
    """Checks a text at a time."""
    text = data.encode() if isinstance(data, str) else data
    return Checker(TrustFolder(entries), Clock(time(at)), status_folder).check(text)


def outcome(result: Result) -> tuple[str, set[str]]:
    """Returns the verdict and the reason codes."""
    return result.verdict.value, {finding.code for finding in result.findings}


def document_keys(document: Any) -> dict[str, PublicKey]:
    """Reads the keys of a DID document or of a key document."""
    if "verificationMethod" in document:
        return keys.from_did_document(document)
    return {document["id"]: keys.from_verification_method(document)}
