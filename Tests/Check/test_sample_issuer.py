"""The sample credential of `make run` is valid under the sample issuer, and a forged copy is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from world import TOP, check, outcome

from earshot_check.trust import TrustFolder

ISSUER = TOP / "examples" / "issuer"
TEXT = (TOP / "config" / "credential.json").read_text()


@pytest.fixture
def sample(tmp_path: Path) -> TrustFolder:
    """Reads a copy of the sample's trust folder, with the modes that `scripts/run` gives it."""
    folder = tmp_path / "issuers.d"
    folder.mkdir(mode=0o755)
    for path in (ISSUER / "issuers.d").iterdir():
        shutil.copyfile(path, folder / path.name)
        (folder / path.name).chmod(0o644)
    found = TrustFolder.read(folder)
    assert found.problems == []
    return found


def test_the_sample_credential_is_valid_and_every_claim_is_signed(sample: TrustFolder) -> None:
    result = check(TEXT, sample.entries, "2027-01-01")
    assert outcome(result) == ("valid", set())
    assert result.issuer == "Example Identity Authority" and result.type == "MOSIPVerifiableCredential"
    assert result.claims == json.loads(TEXT)["verifiableCredential"]["credential"]["credentialSubject"]


def test_a_forged_copy_of_the_sample_credential_is_invalid(sample: TrustFolder) -> None:
    assert "Asha Example Rahman" in TEXT
    forged = TEXT.replace("Asha Example Rahman", "Eve Example Rahman")
    assert outcome(check(forged, sample.entries, "2027-01-01")) == ("invalid", {"signatureWrong"})


def test_the_sample_issuer_is_not_installed() -> None:
    assert "examples/issuer" not in (TOP / "Makefile").read_text()
