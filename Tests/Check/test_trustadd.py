"""`trust add`: from each kind of source to a trust file under which the credential is valid."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import issuer
import pytest
from issuer import LinkedDataIssuer
from world import SAMPLES, check, outcome

from earshot_check import fetch, trustadd
from earshot_check.fetch import FetchError
from earshot_check.trust import TrustFolder

DID = "did:web:issuer.example:people"
KEY = issuer.new_key("EdDSA")
CONTEXT = "https://issuer.example/context.jsonld"
BASE = "https://issuer.example/base.jsonld"
DOCUMENTS: dict[str, Any] = {
    "https://issuer.example/people/did.json": {
        "id": DID,
        "verificationMethod": [
            {"id": DID + "#one", "type": "Ed25519VerificationKey2020", "publicKeyPem": issuer.public_pem(KEY)}
        ],
    },
    CONTEXT: {"@context": [BASE, {"name": "https://issuer.example/terms#name"}]},
    BASE: {"@context": {"Person": "https://issuer.example/terms#Person"}},
}
PINS = {url: DOCUMENTS[url] for url in (CONTEXT, BASE)}


def get(url: str) -> bytes:
    """Answers as the network would."""
    if url not in DOCUMENTS:
        raise FetchError(f"{url}: 404")
    return json.dumps(DOCUMENTS[url]).encode()


def credential() -> dict[str, Any]:
    """Returns a sample credential of the issuer."""
    by = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", KEY, DID + "#one", PINS)
    return by.issue(
        {
            "@context": ["https://www.w3.org/2018/credentials/v1", CONTEXT, {"sec": "https://w3id.org/security#"}],
            "type": ["VerifiableCredential", "Person"],
            "issuer": DID,
            "issuanceDate": "2026-01-01T00:00:00Z",
            "credentialSubject": {"name": 'Quote " and \\ and \x7f'},
        }
    )


def add(source: str | Path, folder: Path, answer: str = "yes", **options: Any) -> int:
    """Runs the command with an answer to its question."""
    values = {
        "source": str(source),
        "trust_folder": folder,
        "name": None,
        "file": None,
        "identifier": [],
        "context": [],
        "yes": False,
    }
    return trustadd.run(argparse.Namespace(**{**values, **options}), get, lambda _: answer)


def test_a_sample_credential_leads_to_a_file_under_which_it_is_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = tmp_path / "sample.json"
    sample.write_text(json.dumps(credential()))
    folder = tmp_path / "issuers.d"
    folder.mkdir(mode=0o755)
    assert add(sample, folder, name='People "Office"') == 0
    shown = capsys.readouterr().out
    assert "SHA-256" in shown and BASE in shown and DID + "#one" in shown
    found = TrustFolder.read(folder)
    assert found.problems == [] and found.entries[0].name == 'People "Office"'
    result = check(json.dumps(credential()), found.entries, "2026-06-01")
    assert outcome(result) == ("valid", set())
    assert sorted(path.name for path in folder.iterdir()) == [
        "did-web-issuer-example-people",
        "did-web-issuer-example-people.toml",
    ]


def test_nothing_is_written_without_a_yes_or_over_another_file(tmp_path: Path) -> None:
    assert add(DID, tmp_path, answer="y") == 1
    assert list(tmp_path.iterdir()) == []
    assert add(DID, tmp_path) == 0
    before = (tmp_path / "did-web-issuer-example-people.toml").read_bytes()
    assert add(DID, tmp_path, yes=True, name="Other") == 1
    assert (tmp_path / "did-web-issuer-example-people.toml").read_bytes() == before


def test_a_did_and_its_address_lead_to_the_same_keys(tmp_path: Path) -> None:
    for number, source in enumerate((DID, "https://issuer.example/people/did.json")):
        assert add(source, tmp_path, file=f"a{number}") == 0
    entries = TrustFolder.read(tmp_path).entries
    assert len(entries) == 2
    assert {frozenset(entry.keys) for entry in entries} == {frozenset({DID + "#one"})}
    assert {entry.identifiers for entry in entries} == {frozenset({DID})}


def test_the_metadata_of_an_issuer_lead_to_its_kinds_of_credentials(tmp_path: Path) -> None:
    url = "https://issuer.example/.well-known/openid-credential-issuer"
    DOCUMENTS[url] = {
        "credential_issuer": "https://issuer.example",
        "display": [{"name": "People Office"}],
        "credential_configurations_supported": {
            "a": {
                "format": "ldp_vc",
                "credential_definition": {
                    "type": ["VerifiableCredential", "Person"],
                    "@context": ["https://www.w3.org/2018/credentials/v1", CONTEXT],
                },
            },
            "b": {"format": "dc+sd-jwt", "vct": "urn:person"},
            "c": {"format": "mso_mdoc", "doctype": "org.example.person"},
        },
    }
    DOCUMENTS["https://issuer.example/.well-known/jwks.json"] = {
        "keys": [
            {"kid": "k1", "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
            {"kty": "oct"},
        ]
    }
    assert add(url, tmp_path) == 0
    (entry,) = TrustFolder.read(tmp_path).entries
    assert entry.name == "People Office" and set(entry.keys) == {"k1"}
    assert [sorted(permit.types) for permit in entry.permits] == [["Person"], ["urn:person"], ["org.example.person"]]


@pytest.mark.parametrize("name", ["sdjwt-chain.txt", "mdoc-ES256.txt"])
def test_a_sample_with_certificates_pins_the_last_of_them(name: str, tmp_path: Path) -> None:
    assert add(SAMPLES / name, tmp_path) == 0
    found = TrustFolder.read(tmp_path)
    assert found.problems == []
    assert check((SAMPLES / name).read_text(), found.entries, "2026-06-01").verdict.value == "valid"


def test_a_key_without_an_issuer_needs_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pem = tmp_path / "key.pem"
    pem.write_text(issuer.public_pem(KEY))
    folder = tmp_path / "issuers.d"
    assert add(pem, folder) == 1
    assert "--identifier" in capsys.readouterr().err
    assert add(pem, folder, identifier=["https://issuer.example"]) == 0


def test_a_source_that_cannot_be_fetched_or_read_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for source in ("did:web:absent.example", "https://issuer.example/absent"):
        assert add(source, tmp_path) == 1
        assert "404" in capsys.readouterr().err
    bad = tmp_path / "bad.json"
    bad.write_text('{"a": 1, "a": 2}')
    assert add(bad, tmp_path) == 1
    assert "occurs twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("did", "url"),
    [
        ("did:web:a.example", "https://a.example/.well-known/did.json"),
        ("did:web:a.example:b:c#key", "https://a.example/b/c/did.json"),
        ("did:web:a.example%3A8443:b", "https://a.example:8443/b/did.json"),
    ],
)
def test_the_address_of_a_did_web(did: str, url: str) -> None:
    assert fetch.did_web_address(did) == url


@pytest.mark.parametrize("did", ["did:key:z6Mk", "did:web:", "did:web:a:..:b", "did:web:a%2Fb", "did:web:a::b", "x"])
def test_text_that_is_not_a_did_web_is_refused(did: str) -> None:
    with pytest.raises(FetchError):
        fetch.did_web_address(did)


@pytest.mark.parametrize("url", ["http://a.example/x", "file:///etc/passwd", "ftp://a.example", "a.example"])
def test_only_https_is_fetched(url: str) -> None:
    with pytest.raises(FetchError, match="not an https address"):
        fetch.get(url)
