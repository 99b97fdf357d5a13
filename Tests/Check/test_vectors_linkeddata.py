"""MOSIP's JSON-LD samples get the verdicts that `expected-ldp_vc.json` says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from world import VECTORS, check, document_keys, entry, need_vectors, outcome, vector, vector_json

from earshot_check.trustentry import Permit, TrustEntry

_FOLDER = "mosip-vc-verifier/contexts/"
_CONTEXTS = {
    "https://piyush7034.github.io/my-files/farmer.json": _FOLDER + "farmer-context.json",
    "https://vharsh.github.io/DID/SchoolCredential.json": _FOLDER + "school-context.json",
    "https://holashchand.github.io/test_project/insurance-context.json": _FOLDER + "insurance-context.json",
    "https://api.collab.mosip.net/.well-known/mosip-ida-context.json": _FOLDER + "mosip-ida-context.json",
    "https://www.w3.org/ns/odrl.jsonld": _FOLDER + "odrl-context.json",
    "https://mosip.github.io/inji-config/contexts/mock-identity-context.json": _FOLDER + "mock-identity-context.json",
}
_AT = "2026-01-01T00:00:00"

ROWS: dict[str, dict[str, Any]] = (
    {row["file"].rsplit("/", 1)[1]: row for row in json.loads((VECTORS / "expected-ldp_vc.json").read_text())["rows"]}
    if VECTORS.is_dir()
    else {}
)
GENUINE = sorted(
    name
    for name, row in ROWS.items()
    if row["result"] == "signature valid" and "StatusList" not in name and (VECTORS / row["file"]).exists()
)


def contexts() -> dict[str, Any]:
    """Returns the contexts that MOSIP's samples use."""
    return {url: vector_json(name) for url, name in _CONTEXTS.items()}


def trusted(name: str, **options: Any) -> TrustEntry:
    """Returns a trust entry for the issuer of a sample."""
    row = ROWS[name]
    document = vector_json(row["file"])
    options.setdefault("keys_by_id", document_keys(vector_json(row["key"])))
    options.setdefault("permits", [Permit(frozenset({"ldp_vc"}), frozenset(), [document["@context"]], None)])
    return entry(row["issuer"], contexts=contexts(), **options)


def valid_time(name: str) -> str:
    """Returns a time in the period of validity of a sample."""
    document = vector_json(ROWS[name]["file"])
    begin: str = document.get("issuanceDate") or document["validFrom"]
    return max(begin, "2024-10-01T00:00:00Z") if name.startswith("PS") else begin


def test_the_vectors_are_there() -> None:
    need_vectors()
    assert len(GENUINE) >= 7


@pytest.mark.parametrize("name", GENUINE)
def test_a_genuine_sample_is_verified_with_the_coverage_that_was_measured(name: str) -> None:
    row = ROWS[name]
    result = check(vector(row["file"]), [trusted(name, drops=True, accepts_unknown_status=True)], valid_time(name))
    assert result.verdict.value == "valid"
    assert result.unsigned == sorted(row["notCoveredBySignature"])
    pairs = {frozenset(pair) for pair in row["interchangeable"]}
    uncovered = {path.rsplit(".", 1)[-1] for path in row["notCoveredBySignature"]}
    subject = vector_json(row["file"])["credentialSubject"]
    present = set(subject)
    found = {
        frozenset((one, other))
        for group in result.interchangeable
        for one in group
        for other in group
        if one < other and {one, other} <= present
    }
    assert found == {pair for pair in pairs if not pair & uncovered}


@pytest.mark.parametrize("name", GENUINE)
def test_a_sample_whose_subject_is_not_signed_is_refused_by_default(name: str) -> None:
    row = ROWS[name]
    result = check(vector(row["file"]), [trusted(name, accepts_unknown_status=True)], valid_time(name))
    has_unsigned_claims = any(path.startswith("credentialSubject") for path in row["notCoveredBySignature"])
    assert result.verdict.value == ("invalid" if has_unsigned_claims else "valid")
    assert ("claimsNotSigned" in outcome(result)[1]) == has_unsigned_claims
    assert has_unsigned_claims == (name == "RS256SignedMosipVC.json")
