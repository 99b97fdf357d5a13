"""Genuine credentials are not valid after a change of anything that a program relies on."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import issuer
import pytest
import subjects
from subjects import Subject
from world import SAMPLES, outcome

from earshot_check import encodings, keys
from earshot_check.trust import TrustFolder
from earshot_check.verdict import Result

#: Whether all subjects are tried, and not a selection.
ALL = bool(os.environ.get("ALL"))
#: Mutations over all credentials.
MUTATIONS = 10_000 if ALL else 600
SEED = 20261129


@pytest.fixture(scope="module")
def genuine(trust: TrustFolder) -> list[Subject]:
    """Returns every genuine credential."""
    return [*subjects.ours(trust), *subjects.others()]


@pytest.fixture(scope="module")
def some(genuine: list[Subject]) -> list[Subject]:
    """Returns a third of the genuine credentials, and all of them with ALL=1."""
    return genuine if ALL else genuine[::3]


def facts(result: Result) -> tuple[Any, ...]:
    """Returns what a program relies on: issuer, type, claims and period of validity."""
    claims = shape(result.claims)
    if result.interchangeable:
        # The names of some claims are not signed, which the verdict reports. Their values are signed.
        claims = sorted(str(value) for _, value in subjects.leaves(claims))
    return (result.issuer, result.type, claims, result.valid_from, result.valid_until, result.format)


def shape(value: Any) -> Any:
    """Returns a value without list order and without lists around single values, which JSON-LD does not sign."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    items = sorted((shape(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return items[0] if len(items) == 1 else items


def test_every_genuine_credential_is_valid(genuine: list[Subject]) -> None:
    assert len(genuine) >= 25
    for subject in genuine:
        assert subject.check(subject.text).verdict.value == "valid", subject.name


def test_one_byte_changed_makes_a_credential_invalid_or_changes_nothing_that_is_shown(genuine: list[Subject]) -> None:
    for subject in genuine:
        before = facts(subject.check(subject.text))
        unsigned = 0
        for name, text in list(subjects.spots(subject.text))[:: 1 if ALL else 5]:
            result = subject.check(text)
            if result.verdict.value == "valid":
                unsigned += not name.startswith("proof.created")
                assert facts(result) == before, f"{subject.name}: {name}"
        # Published samples have parts that are not signed: types, a second proof.
        assert unsigned == 0 or not (SAMPLES / subject.name).exists(), subject.name


def test_one_bit_changed_in_a_signature_makes_it_wrong_with_every_proof_and_algorithm(trust: TrustFolder) -> None:
    samples = subjects.ours(trust)
    assert len(samples) >= 20
    for subject in samples:
        result = subject.check(subjects.with_other_signature(subject.text))
        assert outcome(result) == ("invalid", {"signatureWrong"}), subject.name
        assert result.claims is None and not result.is_verified, subject.name


def test_a_credential_of_another_key_with_the_same_id_is_not_valid(genuine: list[Subject]) -> None:
    made = {
        "Ed25519": "EdDSA",
        "P-256": "ES256",
        "P-384": "ES384",
        "secp256k1": "ES256K",
        "RSA": "RS256",
    }
    others = {kind: keys.from_pem(issuer.public_pem(issuer.new_key(name))) for kind, name in made.items()}
    for subject in genuine:
        trust = subjects.other_keys(subject.trust, others)
        if all(not entry.keys for entry in trust.entries):
            continue
        result = Subject(subject.name, subject.text, trust, subject.at, subject.status).check(subject.text)
        has_chain = (
            "x5c" in subject.name or "mdoc" in subject.name or "chain" in subject.name or "sdjwt" in subject.name
        )
        assert has_chain or outcome(result) == ("invalid", {"signatureWrong"}), subject.name


def test_two_claims_exchanged_make_a_credential_invalid_or_are_marked(some: list[Subject]) -> None:
    for subject in some:
        document = subjects.credential_of(subject.text)
        if document is None or not isinstance(document["credentialSubject"], dict):
            continue
        marked = {
            frozenset((one, other))
            for group in subject.check(subject.text).interchangeable
            for one in group
            for other in group
        }
        claims = document["credentialSubject"]
        names = [name for name, value in claims.items() if isinstance(value, str)][: 8 if ALL else 4]
        for one in names:
            for other in names:
                if one < other and claims[one] != claims[other]:
                    swapped = {**claims, one: claims[other], other: claims[one]}
                    result = subject.check(json.dumps({**document, "credentialSubject": swapped}))
                    is_valid = result.verdict.value == "valid"
                    shown = (result.claims or {}).get(one) if is_valid else None
                    assert not is_valid or shown is None or frozenset((one, other)) in marked, (
                        f"{subject.name}: {one}, {other}"
                    )


def test_a_claim_that_is_added_is_never_shown(some: list[Subject]) -> None:
    for subject in some:
        document = subjects.credential_of(subject.text)
        if document is None or not isinstance(document["credentialSubject"], dict):
            continue
        claims = {**document["credentialSubject"], "isDoctor": True}
        result = subject.check(json.dumps({**document, "credentialSubject": claims}))
        assert result.verdict.value != "valid" or "isDoctor" not in (result.claims or {}), subject.name


def test_a_credential_is_expired_after_its_end(some: list[Subject]) -> None:
    for subject in some:
        result = subject.check(subject.text, "2099-01-01")
        has_end = subject.check(subject.text).valid_until is not None
        assert result.verdict.value == "valid" or not has_end or result.verdict.value == "expired", subject.name
        assert (
            not has_end
            or result.verdict.value != "valid"
            or result.valid_until is None
            or result.valid_until.year > 2099
        )


def mutated(text: str, dice: random.Random) -> bytes:
    """Returns a text with one to four faults: in its bytes, or in its structure."""
    data = bytearray(text.strip().encode())
    document = subjects.credential_of(text)
    if document is not None and dice.random() < 0.6:
        for _ in range(dice.randint(1, 3)):
            document = _mutated_json(document, dice)
        return json.dumps(document).encode()
    if document is None and text.startswith("o") and dice.random() < 0.6:
        raw = bytearray(encodings.base64url(text.strip()))
        for _ in range(dice.randint(1, 3)):
            raw[dice.randrange(len(raw))] = dice.randrange(256)
        return encodings.to_base64url(bytes(raw)).encode()
    for _ in range(dice.randint(1, 4)):
        kind, at = dice.randrange(5), dice.randrange(len(data))
        if kind == 0:
            data[at] = dice.randrange(256)
        elif kind == 1:
            del data[at : at + dice.randint(1, 40)]
        elif kind == 2:
            data[at:at] = data[at : at + dice.randint(1, 40)]
        elif kind == 3:
            data[at:at] = bytes(dice.choice([b"{", b"}", b"[", b"]", b'"', b",", b"~", b".", b"\0", b"\xff", b"-"]))
        else:
            data[at] ^= 1 << dice.randrange(8)
        if not data:
            return b""
    return bytes(data)


_STRANGE: list[Any] = [
    None,
    True,
    0,
    -1,
    1e300,
    2**70,
    "",
    "x",
    [],
    {},
    ["x"],
    {"@value": "x"},
    {"@id": "urn:x"},
    "_:b0",
    "\U0001f600",
]


def _mutated_json(document: Any, dice: random.Random) -> Any:
    found = subjects.leaves(document)
    path, value = dice.choice(found)
    kind = dice.randrange(6)
    if kind == 0:
        return subjects.replaced(document, path, dice.choice(_STRANGE))
    if kind == 1:
        return subjects.replaced(document, path[: dice.randint(1, len(path))], dice.choice(_STRANGE))
    if kind == 2:
        return subjects.replaced(document, path, dice.choice(found)[1])
    if kind == 3:
        return subjects.replaced(document, path, [value, dice.choice(found)[1]])
    copy = json.loads(json.dumps(document))
    parent = copy
    for part in path[:-1]:
        parent = parent[part]
    if isinstance(parent, dict):
        moved = parent.pop(path[-1])
        if kind == 4:
            names = ["validUntil", "cred:validUntil", "@type", "@graph", "id", "type", "face", "@context", "proof", "x"]
            parent[dice.choice(names)] = moved
    return copy


def test_no_mutation_crashes_the_checker_or_changes_what_is_shown(some: list[Subject]) -> None:
    dice = random.Random(SEED)  # noqa: S311
    small = [subject for subject in some if len(subject.text) < 60_000]
    before = {id(subject): facts(subject.check(subject.text)) for subject in small}
    verdicts: dict[str, int] = {}
    for number in range(MUTATIONS):
        subject = small[number % len(small)]
        text = mutated(subject.text, dice)
        result = subject.check(text)
        verdicts[result.verdict.value] = verdicts.get(result.verdict.value, 0) + 1
        result.text()
        if result.verdict.value == "valid":
            assert facts(result) == before[id(subject)], (subject.name, number, text)
    assert verdicts["invalid"] > MUTATIONS / 4


def test_a_stranger_who_copies_the_names_of_an_issuer_is_not_trusted(trust: TrustFolder, tmp_path: Path) -> None:
    key = issuer.new_key("ES256")
    root = issuer.certificate("Residents Root", key, is_ca=True)
    leaf_key = issuer.new_key("ES256")
    leaf = issuer.certificate("Residents Office, SD-JWT", leaf_key, (root, key))
    payload = {"iss": "https://residents.example", "vct": "https://residents.example/resident"}
    text = issuer.sd_jwt(payload, {"given_name": "Eve"}, "ES256", leaf_key, chain=[leaf, root])
    subject = Subject("stranger", text, trust, "2026-06-01", tmp_path)
    assert outcome(subject.check(text)) == ("untrusted", {"chainUntrusted"})
