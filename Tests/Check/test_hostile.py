"""Hostile input ends in a named reason within the limits: in the parser, or in the limited child process."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import issuer
import pytest
import world
from cryptography import x509
from issuer import LinkedDataIssuer
from subjects import with_other_signature
from world import TOP, check, entry, outcome

from earshot_check import certificates, limits, status
from earshot_check.contexts import CREDENTIALS_V1, CREDENTIALS_V2
from earshot_check.encodings import to_base64url
from earshot_check.mdoc import DOCUMENT_SIGNER
from earshot_check.reasons import Refusal
from earshot_check.strictjson import parse
from earshot_check.trustentry import Permit
from earshot_check.verdict import VERDICT_LIMIT, Result

PROGRAM = TOP / "Sources" / "Check" / "earshot-check"
METHOD = "did:web:issuer.example#key"
KEY = issuer.new_key("EdDSA")
_VOCABULARY = "https://issuer.example/terms#"
CONTEXT = "https://issuer.example/context"
CONTEXTS = {
    CONTEXT: {
        "@context": {
            "@vocab": _VOCABULARY,
            "id": "@id",
            "type": "@type",
            "link": {"@id": _VOCABULARY + "link", "@type": "@id"},
            "listed": {"@id": _VOCABULARY + "listed", "@container": "@index"},
            "expires": "https://www.w3.org/2018/credentials#expirationDate",
        }
    }
}


def trusted(key: Any = None, **options: Any) -> Any:
    """Returns an entry for the test issuer, with its usual key or another one."""
    options.setdefault(
        "permits", [Permit(world.FORMATS, frozenset(), [[CREDENTIALS_V1, CONTEXT], [CREDENTIALS_V2]], None)]
    )
    keys_by_id = {METHOD: issuer_key(key)}
    return entry("did:web:issuer.example", keys_by_id=keys_by_id, contexts=CONTEXTS, **options)


def issuer_key(key: Any = None) -> Any:
    """Returns the public key of the test issuer."""
    from earshot_check import keys

    return keys.from_pem(issuer.public_pem(key or KEY))


BY = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", KEY, METHOD, CONTEXTS)


def document(subject: Any, **changes: Any) -> dict[str, Any]:
    """Returns an unsigned credential."""
    return {
        "@context": [CREDENTIALS_V1, CONTEXT],
        "type": ["VerifiableCredential"],
        "issuer": "did:web:issuer.example",
        "issuanceDate": "2026-01-01T00:00:00Z",
        "expirationDate": "2027-01-01T00:00:00Z",
        "credentialSubject": subject,
        **changes,
    }


def verdict(made: Any, at: str = "2026-06-01", **options: Any) -> tuple[str, set[str]]:
    """Returns the verdict on a document or text."""
    text = made if isinstance(made, (str, bytes)) else json.dumps(made)
    return outcome(check(text, [trusted(**options)], at))


# Text.


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe{}",
        b'{"a":1,"a":2}',
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"@context":' + b"[" * 65 + b"]" * 65 + b"}",
        b'{"proof":' * 65 + b"1" + b"}" * 65,
        b'{"a": NaN}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 500 + b"}",
        b'{"a": "\\ud800"}',
        b'{"\\udc00": 1}',
        b"{} {}",
        b"",
        b"   ",
        b"\0",
        b"x" * (4 * 1024 * 1024 + 1),
        b'{"proof": "' + b"x" * (4 * 1024 * 1024) + b'"}',
        b'{"a": 1}\x80',
        b"~",
        b"a~b~",
        b"hello world",
    ],
)
def test_text_that_is_not_well_formed_is_invalid(text: bytes) -> None:
    found, codes = verdict(text)
    assert found == "invalid" and codes <= {"malformed", "proofMalformed"}


@pytest.mark.parametrize(
    "text", [b"{}", b"[]", b'"x"', b'{"verifiableCredential": {}}', b'{"verifiableCredential": {"credential": 1}}']
)
def test_json_without_a_credential_is_named(text: bytes) -> None:
    assert verdict(text) == ("invalid", {"noCredential"})


def test_depth_of_64_is_read_and_of_65_is_not() -> None:
    assert parse("[" * 64 + "]" * 64)
    with pytest.raises(Refusal, match="malformed"):
        parse("[" * 65 + "]" * 65)


def test_unsupported_formats_are_named_and_undecided() -> None:
    presentation = {"@context": [CREDENTIALS_V1], "type": "VerifiablePresentation", "proof": {}}
    assert verdict(presentation) == ("undecided", {"unsupportedFormat"})
    assert verdict("eyJhbGciOiJub25lIn0.eyJ2YyI6e319.") == ("undecided", {"unsupportedFormat"})
    assert verdict({"verifiableCredential": {"credential": "e30.e30.e30"}}) == ("undecided", {"unsupportedFormat"})
    text = issuer.sd_jwt({"iss": "did:web:issuer.example", "vct": "x"}, {}, "EdDSA", KEY, typ="example+sd-jwt")
    assert verdict(text) == ("undecided", {"unsupportedFormat"})


# JSON-LD.


def test_the_credential_that_the_attacks_start_from_is_valid() -> None:
    assert verdict(BY.issue(document({"name": "x"}))) == ("valid", set())


def test_a_bomb_of_blank_nodes_is_undecided() -> None:
    clique = [{"id": f"_:x{one}", "link": [f"_:x{other}" for other in range(12) if other != one]} for one in range(12)]
    made = {**document({"name": "x", "link": clique}), "proof": {**BY.issue(document({}))["proof"]}}
    assert verdict(made) == ("undecided", {"tooComplex"})


def test_more_blank_nodes_than_64_are_undecided() -> None:
    signed = {**document({"part": [{"a": str(n)} for n in range(70)]}), "proof": BY.issue(document({}))["proof"]}
    assert verdict(signed) == ("undecided", {"tooComplex"})


def test_ten_thousand_claims_are_undecided_or_invalid() -> None:
    many = {f"claim{n}": str(n) for n in range(10_000)}
    signed = {**document(many), "proof": BY.issue(document({"name": "x"}))["proof"]}
    assert verdict(signed) == ("undecided", {"tooComplex"})
    fewer = dict(list(many.items())[:600])
    assert verdict(BY.issue(document(fewer))) == ("undecided", {"tooComplex"})
    token = issuer.sd_jwt({"iss": "did:web:issuer.example", "vct": "x"}, many, "EdDSA", KEY, kid="key")
    assert verdict(token) == ("undecided", {"tooComplex"})
    key = issuer.new_key("ES256")
    text = issuer.mdoc(many, [issuer.certificate("x", key)], "ES256", key)
    assert verdict(text) == ("undecided", {"tooComplex"})


def test_a_context_that_is_not_pinned_is_named() -> None:
    made = BY.issue(document({"name": "x"}))
    made["@context"] = [CREDENTIALS_V1, CONTEXT, "https://attacker.example/context"]
    result = check(json.dumps(made), [trusted()], "2026-06-01")
    assert outcome(result) == ("undecided", {"contextUnknown"})
    assert "attacker.example" in result.findings[0].sentence


@pytest.mark.parametrize(
    "contexts",
    [
        [CREDENTIALS_V1, CONTEXT, {"name": _VOCABULARY + "other", "other": _VOCABULARY + "name"}],
        [CREDENTIALS_V1, CONTEXT, CONTEXT],
        [CREDENTIALS_V1, CONTEXT, CREDENTIALS_V1],
        [CREDENTIALS_V1, None, CONTEXT],
    ],
)
def test_contexts_that_rename_claims_are_refused_though_the_signature_stays_right(contexts: list[Any]) -> None:
    made = BY.issue(document({"name": "x"}))
    made["@context"] = contexts
    assert verdict(made) == ("invalid", {"contextNotAllowed"})


def test_a_context_inside_the_document_is_refused() -> None:
    made = BY.issue(document({"name": "x"}))
    made["credentialSubject"]["@context"] = {"other": _VOCABULARY + "name"}
    made["credentialSubject"]["other"] = made["credentialSubject"].pop("name")
    assert verdict(made) == ("invalid", {"contextNotAllowed"})


@pytest.mark.parametrize(
    "name", ["https://www.w3.org/2018/credentials#expirationDate", "cred:expirationDate", "@reverse"]
)
def test_an_expiry_under_an_address_is_refused(name: str) -> None:
    made = BY.issue(document({"name": "x"}, expirationDate="2026-02-01T00:00:00Z"))
    value = made.pop("expirationDate")
    made[name] = {"@value": value, "@type": "http://www.w3.org/2001/XMLSchema#dateTime"}
    assert verdict(made) == ("undecided", {"unsupportedFormat"})


def test_an_expiry_under_a_second_term_of_a_context_is_refused() -> None:
    plain = document({"name": "x"})
    del plain["expirationDate"]
    made = BY.issue({**plain, "expires": "2026-02-01T00:00:00Z"})
    assert verdict(made) == ("invalid", {"hiddenProperty"})


def test_statements_hidden_in_an_identifier_are_refused() -> None:
    genuine = BY.issue(document({"id": "urn:holder", "name": "x"}))
    hidden = copy.deepcopy(genuine)
    hidden["credentialSubject"] = {"id": f'urn:holder> <{_VOCABULARY}name> "x" .\n<urn:holder'}
    found = verdict(hidden)
    assert found[0] == "invalid" and found[1] <= {"malformed", "signatureWrong"}


def test_the_keys_of_an_index_are_not_signed() -> None:
    made = BY.issue(document({"listed": {"passport": "1234"}}))
    assert verdict(made) == ("invalid", {"claimsNotSigned"})
    made["credentialSubject"]["listed"] = {"licence": "1234"}
    result = check(json.dumps(made), [trusted(drops=True)], "2026-06-01")
    assert outcome(result) == ("valid", {"unsignedDropped"}) and "1234" not in result.text()


def test_a_second_name_for_a_term_is_marked_even_if_it_is_absent() -> None:
    contexts = {CONTEXT: {"@context": {"uin": _VOCABULARY + "text", "passport": _VOCABULARY + "text"}}}
    by = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", KEY, METHOD, contexts)
    made = by.issue(document({"uin": "1234"}))
    made["credentialSubject"] = {"passport": "1234"}
    permits = [Permit(world.FORMATS, frozenset(), [[CREDENTIALS_V1, CONTEXT]], None)]
    trust_ = [entry("did:web:issuer.example", keys_by_id={METHOD: issuer_key()}, contexts=contexts, permits=permits)]
    result = check(json.dumps(made), trust_, "2026-06-01")
    assert outcome(result) == ("valid", {"claimsInterchangeable"})
    assert result.interchangeable == [["passport", "uin"]]
    refusing = [
        entry(
            "did:web:issuer.example",
            keys_by_id={METHOD: issuer_key()},
            contexts=contexts,
            permits=permits,
            refuses_interchangeable=True,
        )
    ]
    assert outcome(check(json.dumps(made), refusing, "2026-06-01")) == ("invalid", {"interchangeableRefused"})


def test_a_type_that_is_not_signed_satisfies_no_rule() -> None:
    contexts = {CONTEXT: {"@context": {"name": _VOCABULARY + "name"}}}
    by = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", KEY, METHOD, contexts)
    made = by.issue(document({"name": "x"}, type=["VerifiableCredential", "Surgeon"]))
    permits = [Permit(world.FORMATS, frozenset({"Surgeon"}), [[CREDENTIALS_V1, CONTEXT]], None)]
    trust_ = [entry("did:web:issuer.example", keys_by_id={METHOD: issuer_key()}, contexts=contexts, permits=permits)]
    assert outcome(check(json.dumps(made), trust_, "2026-06-01")) == ("untrusted", {"typeNotAllowed"})


def test_two_credentials_in_one_document_are_undecided() -> None:
    inner = {"type": "VerifiableCredential", "issuer": "did:web:issuer.example"}
    assert verdict(BY.issue(document({"link": inner}))) == ("undecided", {"unsupportedFormat"})


# Proofs.


def with_header(**header: Any) -> dict[str, Any]:
    """Returns a credential with a detached JWS of another header."""
    by = LinkedDataIssuer("Ed25519Signature2018", "EdDSA", KEY, METHOD, CONTEXTS)
    made = by.issue(document({"name": "x"}))
    head = {"alg": "EdDSA", "b64": False, "crit": ["b64"], **header}
    made["proof"]["jws"] = to_base64url(json.dumps(head).encode()) + ".." + made["proof"]["jws"].split("..")[1]
    return made


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"alg": "none"}, "algorithmForbidden"),
        ({"alg": "None"}, "algorithmForbidden"),
        ({"alg": "HS256"}, "algorithmForbidden"),
        ({"alg": None}, "algorithmForbidden"),
        ({"alg": "RS256"}, "algorithmMismatch"),
        ({"alg": "XY256"}, "proofUnsupported"),
        ({"crit": ["b64", "exp"]}, "criticalHeader"),
        ({"crit": []}, "criticalHeader"),
        ({"b64": True}, "proofMalformed"),
        ({"kid": "x"}, "signatureWrong"),
    ],
)
def test_a_header_that_does_not_fit_is_named(header: dict[str, Any], code: str) -> None:
    found, codes = verdict(with_header(**header))
    assert codes == {code} and found == ("undecided" if code == "proofUnsupported" else "invalid")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"type": "BbsBlsSignature2020"}, "proofUnsupported"),
        ({"type": "JsonWebSignature2020"}, "proofUnsupported"),
        ({"type": "DataIntegrityProof", "cryptosuite": "bbs-2023"}, "proofUnsupported"),
        ({"type": "DataIntegrityProof", "cryptosuite": ["eddsa-rdfc-2022"]}, "proofUnsupported"),
        ({"previousProof": "urn:x"}, "proofUnsupported"),
        ({"proofPurpose": "authentication"}, "proofPurpose"),
        ({"verificationMethod": METHOD + "2"}, "keyUnknown"),
        ({"verificationMethod": {"id": METHOD}}, "proofMalformed"),
        ({"proofValue": "uAAAA"}, "proofMalformed"),
        ({"proofValue": "z0OIl"}, "proofMalformed"),
        ({"type": 1}, "proofMalformed"),
    ],
)
def test_a_proof_that_does_not_fit_is_named(changes: dict[str, Any], code: str) -> None:
    made = BY.issue(document({"name": "x"}))
    made["proof"].update(changes)
    found, codes = verdict(made)
    assert codes == {code} and found != "valid"


def test_a_p256_proof_of_the_older_kind_may_have_a_proof_value_which_is_verified() -> None:
    key = issuer.new_key("ES256")
    by = LinkedDataIssuer("EcdsaSecp256r1Signature2019", "ES256", key, METHOD, CONTEXTS, has_proof_value=True)
    made = by.issue(document({"name": "x"}))
    assert verdict(made, key=key) == ("valid", set())
    made["credentialSubject"]["name"] = "y"
    assert verdict(made, key=key) == ("invalid", {"signatureWrong"})


def test_one_right_proof_of_several_is_enough_and_nine_proofs_are_too_many() -> None:
    made = BY.issue(document({"name": "x"}))
    wrong = {**made["proof"], "proofValue": "z" + "1" * 64}
    assert verdict({**made, "proof": [wrong, made["proof"]]}) == ("valid", set())
    assert verdict({**made, "proof": [wrong, wrong]}) == ("invalid", {"signatureWrong"})
    assert verdict({**made, "proof": [made["proof"]] * 9}) == ("invalid", {"proofMalformed"})
    assert verdict({**made, "proof": []}) == ("invalid", {"proofMissing"})
    assert verdict({**made, "proof": ["x"]}) == ("invalid", {"proofMalformed"})


def test_a_proof_that_expires_before_the_credential_ends_its_validity() -> None:
    made = BY.issue(document({"name": "x"}), expires="2026-03-01T00:00:00Z")
    assert verdict(made, "2026-02-01") == ("valid", set())
    assert verdict(made, "2026-06-01") == ("expired", {"expired"})


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES256K", "EdDSA", "PS256", "RS256"])
def test_an_sd_jwt_of_every_algorithm_needs_its_signature_and_its_dates(algorithm: str) -> None:
    key = issuer.new_key(algorithm)
    payload = {"iss": "did:web:issuer.example", "vct": "x", "nbf": 1767225600, "exp": 1798761600}
    text = issuer.sd_jwt(payload, {"name": "x"}, algorithm, key, kid="key")
    assert verdict(text, "2026-06-01", key=key) == ("valid", set())
    assert verdict(text, "2025-12-31", key=key) == ("notYetValid", {"notYetValid"})
    assert verdict(text, "2027-01-02", key=key) == ("expired", {"expired"})
    assert verdict(with_other_signature(text), key=key) == ("invalid", {"signatureWrong"})
    other = issuer.sd_jwt({**payload, "exp": 4102444800}, {"name": "x"}, algorithm, key, kid="key")
    parts, changed = text.split("."), other.split(".")
    assert verdict(".".join([parts[0], changed[1], parts[2]]), key=key)[0] == "invalid"


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES256K", "EdDSA"])
def test_an_mdoc_of_every_algorithm_needs_its_signature_and_its_dates(algorithm: str) -> None:
    key = issuer.new_key(algorithm)
    signer = issuer.certificate("Signer", key, purposes=(DOCUMENT_SIGNER,))
    roots = [certificates.from_der(issuer.der(signer))]
    text = issuer.mdoc({"family_name": "x"}, [signer], algorithm, key)

    def found(text: str, at: str = "2026-06-01") -> tuple[str, set[str]]:
        return outcome(check(text, [entry(roots=roots)], at))

    assert found(text) == ("valid", set())
    assert found(text, "2025-12-31") == ("notYetValid", {"notYetValid"})
    assert found(text, "2028-01-02") == ("expired", {"expired"})
    assert found(with_other_signature(text)) == ("invalid", {"signatureWrong"})


# Status lists.


def list_with(
    data: str,
    folder: Path,
    *,
    purpose: str = "revocation",
    signed: str = "2026-05-31T00:00:00Z",
    at: str = "2026-06-01",
) -> tuple[str, set[str]]:
    """Returns the verdict on a credential whose status list has this text as its bits, and this purpose."""
    url = "https://issuer.example/status"
    by = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", KEY, METHOD, CONTEXTS, created=signed)
    made = {
        "@context": [CREDENTIALS_V2],
        "id": url,
        "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "issuer": "did:web:issuer.example",
        "validFrom": signed,
        "credentialSubject": {"type": "BitstringStatusList", "statusPurpose": purpose, "encodedList": data},
    }
    (folder / status.file_name(url)).write_text(json.dumps(by.issue(made)))
    reference = {
        "type": "BitstringStatusListEntry",
        "statusPurpose": "revocation",
        "statusListIndex": "3",
        "statusListCredential": url,
    }
    credential = document({"id": "urn:x", "type": "Thing"}, credentialStatus=reference)
    credential["@context"] = [CREDENTIALS_V2]
    credential["validFrom"] = credential.pop("issuanceDate")
    del credential["expirationDate"]
    del credential["credentialSubject"]["type"]
    lists = {url: timedelta(days=7)}
    return outcome(check(json.dumps(by.issue(credential)), [trusted(lists=lists)], at, folder))


def test_a_bomb_of_gzip_in_a_status_list_leaves_the_status_unknown(tmp_path: Path) -> None:
    bomb = gzip.compress(bytes(4 * status.LIST_LIMIT), 9)
    assert len(bomb) < 100_000
    assert list_with("u" + to_base64url(bomb), tmp_path) == ("undecided", {"statusUnknown"})


@pytest.mark.parametrize(
    "data",
    [
        "u",
        "uAAAA",
        "H4sI",
        "x",
        "u" + to_base64url(gzip.compress(b"")),
        "u" + to_base64url(gzip.compress(b"\0" * 9)[:-9]),
    ],
)
def test_a_status_list_that_cannot_be_read_leaves_the_status_unknown(data: str, tmp_path: Path) -> None:
    assert list_with(data, tmp_path) == ("undecided", {"statusUnknown"})


def test_a_good_status_list_is_read(tmp_path: Path) -> None:
    assert list_with("u" + to_base64url(gzip.compress(bytes(16384))), tmp_path) == ("valid", set())
    assert list_with("u" + to_base64url(gzip.compress(b"\x10" + bytes(16383))), tmp_path) == ("revoked", {"revoked"})


def test_a_list_of_another_purpose_and_a_list_that_is_too_old_or_of_the_future_leave_the_status_unknown(
    tmp_path: Path,
) -> None:
    data = "u" + to_base64url(gzip.compress(bytes(16384)))
    unknown = ("undecided", {"statusUnknown"})
    assert list_with(data, tmp_path, purpose="suspension") == unknown
    assert list_with(data, tmp_path, at="2026-06-08") == unknown
    assert list_with(data, tmp_path, signed="2026-06-03T00:00:00Z") == unknown


def test_the_status_of_an_mdoc_is_looked_up_in_a_token_list(tmp_path: Path) -> None:
    url, key = "https://issuer.example/tokens", issuer.new_key("ES256")
    signer = issuer.certificate("Signer", key, purposes=(DOCUMENT_SIGNER,))
    trust_ = entry(
        roots=[certificates.from_der(issuer.der(signer))],
        keys_by_id={METHOD: issuer_key()},
        lists={url: timedelta(days=7)},
    )
    bits = to_base64url(zlib.compress(b"\x09" + bytes(99)))
    body = {"sub": url, "iat": 1780185600, "status_list": {"bits": 2, "lst": bits}}
    made = issuer.compact({"typ": "statuslist+jwt", "kid": METHOD}, json.dumps(body).encode(), "EdDSA", KEY)
    (tmp_path / status.file_name(url)).write_text(made)
    for index, expected in ((0, "revoked"), (1, "suspended"), (2, None)):
        text = issuer.mdoc(
            {"family_name": "x"}, [signer], "ES256", key, status={"status_list": {"idx": index, "uri": url}}
        )
        found = outcome(check(text, [trust_], "2026-06-01", tmp_path))
        assert found == (("revoked", {expected}) if expected else ("valid", set()))


# Permissions of a trust entry.


def test_an_sd_jwt_whose_certificate_names_another_issuer_is_untrusted() -> None:
    root_key, key = issuer.new_key("ES256"), issuer.new_key("ES256")
    root = issuer.certificate("Root", root_key, is_ca=True)
    entry_ = trusted(roots=[certificates.from_der(issuer.der(root))])
    payload = {"iss": "did:web:issuer.example", "vct": "x"}
    for name, expected in (
        ("issuer.example", ("valid", set())),
        ("other.example", ("untrusted", {"certificateName"})),
    ):
        signer = issuer.certificate("Signer", key, (root, root_key), names=(x509.DNSName(name),))
        text = issuer.sd_jwt(payload, {"name": "x"}, "ES256", key, chain=[signer])
        assert outcome(check(text, [entry_], "2026-06-01")) == expected


def test_a_type_is_allowed_in_the_format_of_its_own_table_only() -> None:
    key = issuer.new_key("ES256")
    permits = [
        Permit(frozenset({"dc+sd-jwt"}), frozenset({"one"}), None, None),
        Permit(frozenset({"vc+sd-jwt"}), frozenset({"two"}), None, None),
    ]
    for typ, kind, is_allowed in (("dc", "one", True), ("dc", "two", False), ("vc", "one", False), ("vc", "two", True)):
        payload = {"iss": "did:web:issuer.example", "vct": kind}
        text = issuer.sd_jwt(payload, {"name": "x"}, "ES256", key, kid="key", typ=f"{typ}+sd-jwt")
        expected = ("valid", set()) if is_allowed else ("untrusted", {"typeNotAllowed"})
        assert verdict(text, key=key, permits=permits) == expected


def test_only_the_claims_that_the_entry_names_are_shown_in_every_format() -> None:
    key = issuer.new_key("ES256")
    signer = issuer.certificate("Signer", key, purposes=(DOCUMENT_SIGNER,))
    claims = {"family_name": "x", "portrait": "y"}
    permit = Permit(world.FORMATS, frozenset(), [[CREDENTIALS_V1, CONTEXT]], frozenset({"family_name"}))
    entry_ = trusted(key, permits=[permit], roots=[certificates.from_der(issuer.der(signer))])
    by = LinkedDataIssuer("EcdsaSecp256r1Signature2019", "ES256", key, METHOD, CONTEXTS)
    payload = {"iss": "did:web:issuer.example", "vct": "x", "portrait": "z"}
    for text, expected in (
        (json.dumps(by.issue(document(claims))), {"family_name": "x"}),
        (issuer.sd_jwt(payload, {"family_name": "x"}, "ES256", key, kid="key"), {"family_name": "x"}),
        (issuer.mdoc(claims, [signer], "ES256", key), {"org.iso.18013.5.1": {"family_name": "x"}}),
    ):
        result = check(text, [entry_], "2026-06-01")
        assert result.verdict.value == "valid" and result.claims == expected


# The child process.


def test_a_child_that_takes_too_long_is_ended() -> None:
    def endless() -> Result:
        while True:
            pass

    answer = limits.run(endless, seconds=0.3)
    assert isinstance(answer, Result) and outcome(answer) == ("undecided", {"limitExceeded"})


def test_a_child_that_takes_too_much_memory_is_ended() -> None:
    def greedy() -> Result:
        held = [bytearray(16 * 1024 * 1024) for _ in range(32)]
        return Result(datetime.now(timezone.utc), issuer=f"{len(held)} pieces of memory")

    answer = limits.run(greedy, 120)
    assert isinstance(answer, Result) and outcome(answer) == ("undecided", {"limitExceeded"})
    assert answer.findings[0].detail == "over 224 MiB of memory"


def test_a_child_that_crashes_is_undecided() -> None:
    def crash() -> Result:
        raise ZeroDivisionError

    answer = limits.run(crash, 120)
    assert isinstance(answer, Result) and outcome(answer) == ("undecided", {"checkerFailed"})


def test_the_limit_of_processor_time_is_in_force_in_the_child() -> None:
    def tell() -> Result:
        import resource

        result = Result(checked_at=world.time("2026-01-01"))
        result.issuer = str(resource.getrlimit(resource.RLIMIT_CPU)[0])
        return result

    answer = limits.run(tell, 120)
    assert isinstance(answer, str) and json.loads(answer)["issuer"] == str(limits.CPU_SECONDS)
    answer = limits.run(tell, 120, cpu_seconds=15)
    assert isinstance(answer, str) and json.loads(answer)["issuer"] == "15"


@pytest.mark.parametrize("size", [100, VERDICT_LIMIT, 3 * VERDICT_LIMIT])
def test_a_verdict_never_exceeds_its_limit(size: int) -> None:
    result = Result(checked_at=world.time("2026-01-01"), is_verified=True)
    result.claims = {"face": "x" * size, "name": "y", "space": {"portrait": "z" * size, "age": 3}}
    text = result.text()
    assert len(text.encode()) <= VERDICT_LIMIT
    found = json.loads(text)
    assert found["claims"]["name"] == "y" and found["claims"]["space"]["age"] == 3
    assert sorted(found["omitted"]) == ([] if size == 100 else ["face", "space.portrait"])
    assert [reason["code"] for reason in found["reasons"]] == ([] if size == 100 else ["claimsOmitted"])


def test_the_program_keeps_its_limits_without_its_unit(tmp_path: Path) -> None:
    """Gives the worst inputs to the command line, and expects a verdict, its exit status, and no traceback."""
    nested = b'{"@context":["https://www.w3.org/2018/credentials/v1"],"proof":' + b"[" * 100_000
    wide = b'{"@context":1,"proof":{},"x":[' + b"{}," * 1_300_000 + b"{}]}"
    for text in (nested, wide, b"\xff" * 5_000_000):
        command = [
            sys.executable,
            "-I",
            str(PROGRAM),
            "--trust-folder",
            str(tmp_path),
            "verify",
            "-",
            "--timeout",
            "120",
        ]
        done = subprocess.run(command, input=text, capture_output=True, check=False)  # noqa: S603
        found = json.loads(done.stdout)
        assert found["verdict"] in ("invalid", "undecided")
        assert done.returncode == (1 if found["verdict"] == "invalid" else 2)
