"""The trust folder: valid and broken files, and the entry that a credential uses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import issuer
import pytest
from world import SAMPLES, check, outcome

from earshot_check import trustlist
from earshot_check.trust import TrustFolder

PEM = issuer.public_pem(issuer.new_key("ES256"))
GOOD = f'''name = "Issuer"
identifiers = ["did:web:a.example"]

[[keys]]
id = "did:web:a.example#key"
pem = """
{PEM}"""

[[credentials]]
formats = ["ldp_vc"]
types = ["Thing"]
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns an empty trust folder."""
    made = tmp_path / "issuers.d"
    made.mkdir(mode=0o755)
    return made


def write(folder: Path, text: str, name: str = "a.toml") -> Path:
    """Writes a trust file as an administrator would."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o644)
    return path


def problems(folder: Path) -> list[str]:
    """Returns the problems of a folder as they are shown."""
    return [str(problem) for problem in TrustFolder.read(folder).problems]


def test_a_good_file_is_an_entry(folder: Path) -> None:
    write(folder, GOOD)
    found = TrustFolder.read(folder)
    assert found.problems == [] and [entry.name for entry in found.entries] == ["Issuer"]


def test_an_absent_folder_trusts_no_issuer_and_is_not_a_problem(tmp_path: Path) -> None:
    found = TrustFolder.read(tmp_path / "absent")
    assert found.entries == [] and found.problems == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('name = "Issuer"', 'name = "Issuer', "a.toml:1: Illegal character"),
        ('name = "Issuer"', 'nome = "Issuer"', "a.toml:1: unknown key nome"),
        ('name = "Issuer"\n', "\n", "a.toml:1: name is missing"),
        ('["did:web:a.example"]', '"did:web:a.example"', "a.toml:2: identifiers is not a list of texts"),
        ('identifiers = ["did:web:a.example"]\n', "\n", "a.toml:1: identifiers is missing"),
        ("-----BEGIN PUBLIC KEY-----\nM", "-----BEGIN PUBLIC KEY-----\nX", "a.toml:6: not a public key in PEM"),
        ("pem = ", "pam = ", "a.toml:6: unknown key pam in [[keys]]"),
        ('id = "did:web:a.example#key"\n', "", "a.toml:5: the key has no id"),
        ('["ldp_vc"]', '["jwt_vc_json"]', "a.toml:14: formats must be a list of"),
        ('types = ["Thing"]', "types = 3", "a.toml:15: types is not a list of texts"),
        ("[[credentials]]", "[credentials]", "a.toml:13: credentials is not a list of tables"),
        (
            'types = ["Thing"]',
            'contexts = ["https://x.example/c"]',
            "a.toml:15: the context https://x.example/c is not pinned",
        ),
        ('types = ["Thing"]', 'allow_missing_typ = "yes"', "a.toml:15: allow_missing_typ must be true or false"),
    ],
)
def test_a_broken_file_is_named_with_its_line(folder: Path, before: str, after: str, expected: str) -> None:
    assert before in GOOD
    write(folder, GOOD.replace(before, after, 1))
    write(folder, GOOD.replace("did:web:a", "did:web:b"), "b.toml")
    found = problems(folder)
    assert len(found) == 1 and found[0].startswith(expected), found
    # The other files are still used.
    assert [entry.file for entry in TrustFolder.read(folder).entries] == ["b.toml"]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('[[status_lists]]\nurl = "https://x.example"\nmax_age = "soon"\n', "max_age must be a duration"),
        ('[[status_lists]]\nmax_age = "7d"\n', "a status list needs a url"),
        ('[[roots]]\npem = "x"\n', "not a certificate in PEM"),
        ('[[roots]]\nfile = "../../etc/passwd"\n', "below the folder of the trust file"),
        ('[[roots]]\nfile = "/etc/passwd"\n', "below the folder of the trust file"),
        ('[[roots]]\nfile = "absent.pem"\n', "absent.pem cannot be read: No such file or directory"),
        ('[[contexts]]\nurl = "https://x.example"\nfile = "a.toml"\nsha256 = "00"\n', "a.toml has the SHA-256"),
        ('[[contexts]]\nurl = "https://www.w3.org/ns/credentials/v2"\nfile = "a.toml"\nsha256 = "00"\n', "is shipped"),
        ('[[keys]]\nid = "x"\nmultibase = "z6Mk"\n', "the multibase"),
        ('[[keys]]\nid = "x"\njwk = { kty = "oct", k = "AAAA" }\n', "kty 'oct'"),
        ('[[keys]]\nid = "did:web:a.example#key"\npem = """\n' + PEM + '"""\n', "two keys have the id"),
    ],
)
def test_a_broken_table_is_named(folder: Path, table: str, expected: str) -> None:
    write(folder, GOOD + "\n" + table)
    found = problems(folder)
    assert len(found) == 1 and expected in found[0] and found[0].startswith("a.toml:"), found


def test_one_type_with_two_lists_of_contexts_is_refused(folder: Path) -> None:
    v1, v2 = '["https://www.w3.org/2018/credentials/v1"]', '["https://www.w3.org/ns/credentials/v2"]'
    write(
        folder, GOOD + f'contexts = {v1}\n\n[[credentials]]\nformats = ["ldp_vc"]\ntypes = ["Thing"]\ncontexts = {v2}\n'
    )
    assert "two tables allow the same type with different contexts" in problems(folder)[0]
    write(folder, GOOD + f"contexts = [{v1}, {v2}]\n")
    assert problems(folder) == []


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_is_not_used(folder: Path, mode: int) -> None:
    write(folder, GOOD).chmod(mode)
    assert problems(folder) == ["a.toml: a.toml is writable by others; use chmod go-w"]
    assert TrustFolder.read(folder).entries == []


def test_a_folder_that_others_can_write_is_not_used(folder: Path) -> None:
    write(folder, GOOD)
    folder.chmod(0o777)
    assert "writable by others" in problems(folder)[0]
    assert TrustFolder.read(folder).entries == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_used(folder: Path) -> None:
    os.chown(write(folder, GOOD), 12345, 12345)
    assert problems(folder) == ["a.toml: a.toml belongs to user 12345, not to root"]


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "a.toml").symlink_to(folder / "absent")
    assert problems(folder) == ["a.toml: a.toml cannot be read: No such file or directory"]


def test_a_did_document_is_read_with_the_keys_of_supported_kinds(folder: Path) -> None:
    document = folder / "a.json"
    jwk = '{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}'
    document.write_text(
        '{"id":"did:web:a.example","verificationMethod":['
        f'{{"id":"#one","publicKeyJwk":{jwk}}},'
        '{"id":"did:web:a.example#two","publicKeyMultibase":"z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc"}]}'
    )
    document.chmod(0o644)
    start, rest = GOOD.split("[[keys]]")
    text = start + '[[keys]]\ndid_document = "a.json"\n\n[[credentials]]' + rest.split("[[credentials]]")[1]
    write(folder, text)
    assert problems(folder) == []
    assert set(TrustFolder.read(folder).entries[0].keys) == {"did:web:a.example#one"}


def test_only_allowed_claims_are_shown(folder: Path, trust_folder: Path) -> None:
    for path in trust_folder.iterdir():
        shutil.copy(path, folder)
    text = (folder / "residents.toml").read_text()
    write(
        folder,
        text.replace(
            'types = ["ResidentCredential"]\n',
            'types = ["ResidentCredential"]\nclaims = ["dateOfBirth", "address.city"]\n',
        ),
        "residents.toml",
    )
    text = (SAMPLES / "ldp-Ed25519Signature2020-EdDSA.json").read_text()
    result = check(text, TrustFolder.read(folder).entries, "2026-06-01")
    assert outcome(result) == ("valid", set())
    assert result.claims == {"dateOfBirth": "1991-04-17", "address": {"city": "Sample Town"}}
    assert "Asha" not in result.text()


def test_trust_list_shows_entries_and_problems(
    trust_folder: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert trustlist.show(trust_folder) == 0
    shown = capsys.readouterr().out
    assert "residents.toml: Residents Office" in shown and "SHA-256" in shown and "status list" in shown
    write(folder, "x")
    assert trustlist.show(folder) == 1
    captured = capsys.readouterr()
    assert "No issuer is trusted" in captured.out and f"{folder}/a.toml:1:" in captured.err


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ldp-Ed25519Signature2020-EdDSA.json", "residents.toml: used"),
        ("sdjwt-chain.txt", "residents.toml: used"),
        ("mdoc-ES256.txt", "residents.toml: used"),
        ("mdoc-mosip.txt", "certify.toml: used"),
        ("ldp-other-issuer.json", "residents.toml: it does not name this issuer"),
        ("sdjwt-other-type.txt", "residents.toml: it does not allow the type https://residents.example/driver"),
        ("mdoc-self-made.txt", "residents.toml: no root of it issued the certificate"),
        ("mdoc-self-made.txt", "No entry is used: the credential is untrusted."),
    ],
)
def test_trust_test_says_which_entry_is_used_and_why_not(
    name: str, line: str, trust_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = trustlist.test(trust_folder, (SAMPLES / name).read_bytes())
    assert line in capsys.readouterr().out
    assert status == (0 if line.endswith("used") else 1)


def test_the_entry_of_the_second_file_is_used_where_the_first_lacks_the_type(folder: Path, trust_folder: Path) -> None:
    for path in trust_folder.iterdir():
        shutil.copy(path, folder)
    write(folder, GOOD.replace("did:web:a.example", "did:web:residents.example"), "0.toml")
    text = (SAMPLES / "ldp-Ed25519Signature2020-EdDSA.json").read_text()
    assert outcome(check(text, TrustFolder.read(folder).entries, "2026-06-01")) == ("valid", set())
