"""The samples in the tree get the verdicts that expected.json says, with the trust folder beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from world import SAMPLES, outcome, time

from earshot_check.check import Checker
from earshot_check.dates import Clock
from earshot_check.trust import TrustFolder
from earshot_check.verdict import Result

EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
GENUINE = sorted(name for name, row in EXPECTED["samples"].items() if row["verdict"] == "valid")


def check(text: str, trust: TrustFolder, at: str = EXPECTED["at"], status: Path = SAMPLES / "status") -> Result:
    return Checker(trust, Clock(time(at)), status).check(text.encode())


@pytest.mark.parametrize("name", sorted(EXPECTED["samples"]))
def test_a_sample_gets_the_expected_verdict(name: str, trust: TrustFolder) -> None:
    row = EXPECTED["samples"][name]
    result = check((SAMPLES / name).read_text(), trust)
    assert outcome(result) == (row["verdict"], set(row["reasons"])), result.findings


@pytest.mark.parametrize("name", GENUINE)
def test_a_genuine_sample_is_expired_years_later(name: str, trust: TrustFolder) -> None:
    assert check((SAMPLES / name).read_text(), trust, "2031-01-01").verdict.value == "expired"


def test_there_is_a_sample_of_each_format_and_proof() -> None:
    names = " ".join(GENUINE)
    for word in ("Ed25519Signature2018", "Ed25519Signature2020", "RS256", "PS256", "2019-ES256K", "r1Signature2019"):
        assert word in names
    for word in ("eddsa-rdfc", "eddsa-jcs", "ecdsa-rdfc-2019-ES384", "ecdsa-jcs-2019-ES256", "sdjwt-", "mdoc-"):
        assert word in names


def test_a_verdict_contains_nothing_of_the_envelope(trust: TrustFolder) -> None:
    for name in ("envelope.json", "sdjwt-in-envelope.json", "mdoc-in-envelope.json"):
        text = (SAMPLES / name).read_text()
        assert "PRIVATE" in text
        assert "PRIVATE" not in check(text, trust).text()


def test_the_digest_is_the_same_in_and_outside_of_an_envelope(trust: TrustFolder) -> None:
    for inside in ("envelope.json", "sdjwt-in-envelope.json"):
        record = json.loads((SAMPLES / inside).read_text())
        credential = record["verifiableCredential"]["credential"]
        bare = credential if isinstance(credential, str) else json.dumps(credential, indent=7)
        assert check(bare, trust).digest == check(json.dumps(record), trust).digest


def test_nothing_is_fetched_while_checking(trust: TrustFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was made")

    monkeypatch.setattr("socket.socket", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    for name, row in EXPECTED["samples"].items():
        assert check((SAMPLES / name).read_text(), trust).verdict.value == row["verdict"]
    document = json.loads((SAMPLES / "envelope.json").read_text())["verifiableCredential"]["credential"]
    document["@context"].append("https://elsewhere.example/context")
    assert outcome(check(json.dumps(document), trust)) == ("undecided", {"contextUnknown"})


def test_no_character_of_a_claim_acts_on_a_terminal(trust: TrustFolder) -> None:
    text = (SAMPLES / "sdjwt-chain.txt").read_text()
    result = check(text, trust)
    result.claims = {"name": "a\x1b[2J\x9b2J\u202eb\x7f"}
    shown = result.text()
    assert shown.isprintable() and json.loads(shown)["claims"] == result.claims
