"""Status lists: revoked, not revoked, unknown; and published lists."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import test_vectors_linkeddata
from world import SAMPLES, check, document_keys, entry, outcome, time, vector, vector_json

from earshot_check import status
from earshot_check.check import Checker
from earshot_check.dates import Clock
from earshot_check.fetch import FetchError
from earshot_check.statusupdate import run
from earshot_check.trust import TrustFolder
from earshot_check.trustentry import Permit, StatusSource

_MOSIP = "mosip-vc-verifier/ldp_vc/"


def mosip(list_name: str, credential: str, folder: Path, at: str, days: int = 7) -> tuple[str, set[str]]:
    """Returns the verdict on one of MOSIP's two credentials with one of their lists."""
    document = vector_json(_MOSIP + credential)
    url = document["credentialStatus"]["statusListCredential"]
    (folder / status.file_name(url)).write_bytes(vector(_MOSIP + list_name))
    trusted = entry(
        document["issuer"],
        keys_by_id=document_keys(vector_json(_MOSIP + "mockDid.json")),
        contexts=test_vectors_linkeddata.contexts(),
        permits=[Permit(frozenset({"ldp_vc"}), frozenset(), [document["@context"]], None)],
        lists={url: timedelta(days=days)},
    )
    return outcome(check(json.dumps(document), [trusted], at, folder))


def test_the_pair_of_mosip_is_revoked_and_not_revoked(tmp_path: Path) -> None:
    at = "2025-11-12"
    assert mosip("mosipUnrevokedStatusList.json", "mosipUnrevokedVC.json", tmp_path, at) == ("valid", set())
    assert mosip("mosipRevokedStatusList.json", "mosipRevokedVC.json", tmp_path, at) == ("revoked", {"revoked"})


def test_a_list_that_is_too_old_leaves_the_status_unknown(tmp_path: Path) -> None:
    name = "mosipUnrevokedStatusList.json"
    assert mosip(name, "mosipUnrevokedVC.json", tmp_path, "2025-12-12") == ("undecided", {"statusUnknown"})
    assert mosip(name, "mosipUnrevokedVC.json", tmp_path, "2025-12-12", days=60) == ("valid", set())


def test_a_list_with_one_bit_cleared_is_rejected(tmp_path: Path) -> None:
    document = vector_json(_MOSIP + "mosipRevokedStatusList.json")
    other = vector_json(_MOSIP + "mosipUnrevokedStatusList.json")
    document["credentialSubject"]["encodedList"] = other["credentialSubject"]["encodedList"]
    credential = vector_json(_MOSIP + "mosipRevokedVC.json")
    url = credential["credentialStatus"]["statusListCredential"]
    (tmp_path / status.file_name(url)).write_text(json.dumps(document))
    trusted = entry(
        credential["issuer"],
        keys_by_id=document_keys(vector_json(_MOSIP + "mockDid.json")),
        contexts=test_vectors_linkeddata.contexts(),
        permits=[Permit(frozenset({"ldp_vc"}), frozenset(), [credential["@context"]], None)],
        lists={url: timedelta(days=7)},
    )
    result = check(json.dumps(credential), [trusted], "2025-11-12", tmp_path)
    assert result.verdict.value == "undecided" and "statusUnknown" in outcome(result)[1]


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [("status_list_encoding_json", 0, 1), ("status_list_encoding2_json", 1, 2)],
)
def test_the_token_lists_of_the_ietf_are_decoded(name: str, index: int, value: int) -> None:
    text = vector(f"ietf/token-status-list/{name}.md").decode()
    body = json.loads(text[text.index("{") : text.rindex("}") + 1])
    inner = body.get("status_list", body)
    bits = status._inflated(inner["lst"], 15)
    assert status._token_value(bits, inner["bits"], index) == value


def test_the_state_and_the_age_of_the_list_are_in_the_verdict(trust: TrustFolder) -> None:
    text = (SAMPLES / "ldp-not-revoked.json").read_bytes()
    found = json.loads(Checker(trust, Clock(time("2026-06-01")), SAMPLES / "status").check(text).text())
    assert found["status"] == {"state": "notRevoked", "asOf": "2026-05-31T00:00:00Z", "age": 86400}


def test_without_a_list_the_status_is_unknown_and_may_be_accepted(trust: TrustFolder, tmp_path: Path) -> None:
    import dataclasses

    text = (SAMPLES / "ldp-not-revoked.json").read_bytes()
    clock = Clock(time("2026-06-01"))
    result = Checker(trust, clock, tmp_path).check(text)
    assert outcome(result) == ("undecided", {"statusUnknown"}) and result.status.state == "unknown"
    entries = [dataclasses.replace(entry_, accepts_unknown_status=True) for entry_ in trust.entries]
    result = Checker(TrustFolder(entries), clock, tmp_path).check(text)
    assert outcome(result) == ("valid", {"statusAccepted"}) and result.status.state == "unknown"


def test_a_revoked_credential_stays_revoked_where_unknown_is_accepted(trust: TrustFolder) -> None:
    import dataclasses

    entries = [dataclasses.replace(entry_, accepts_unknown_status=True) for entry_ in trust.entries]
    for name in ("ldp-revoked.json", "sdjwt-revoked.txt"):
        checker = Checker(TrustFolder(entries), Clock(time("2026-06-01")), SAMPLES / "status")
        assert checker.check((SAMPLES / name).read_bytes()).verdict.value == "revoked"


def test_a_list_of_another_signer_is_accepted_only_if_the_entry_names_the_signer(trust: TrustFolder) -> None:
    import dataclasses

    def with_issuer(name: str | None) -> TrustFolder:
        entries = []
        for entry_ in trust.entries:
            lists = {url: StatusSource(url, source.max_age, name) for url, source in entry_.status_lists.items()}
            entries.append(dataclasses.replace(entry_, status_lists=lists))
        return TrustFolder(entries)

    text = (SAMPLES / "ldp-not-revoked.json").read_bytes()
    for name, expected in (("did:web:elsewhere.example", "undecided"), ("did:web:residents.example", "valid")):
        checker = Checker(with_issuer(name), Clock(time("2026-06-01")), SAMPLES / "status")
        assert checker.check(text).verdict.value == expected


def test_status_update_stores_good_lists_and_keeps_the_old_one_otherwise(
    trust_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clock, "of_machine", staticmethod(lambda: Clock(time("2026-06-01"))))
    stored = {
        status.file_name(url): url
        for url in ("https://residents.example/status/1", "https://residents.example/status/tokens")
    }
    good = {url: (SAMPLES / "status" / name).read_bytes() for name, url in stored.items()}
    assert run(trust_folder, tmp_path, good.__getitem__) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        name: good[url] for name, url in stored.items()
    }
    assert capsys.readouterr().out.count("stored, signed at 2026-05-31T00:00:00Z") == 2

    def bad(url: str) -> bytes:
        if url.endswith("tokens"):
            raise FetchError(f"{url}: no route")
        return good[url].replace(b"revocation", b"suspension")

    assert run(trust_folder, tmp_path, bad) == 1
    errors = capsys.readouterr().err
    assert "no route" in errors and "The signature does not match" in errors
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        name: good[url] for name, url in stored.items()
    }
