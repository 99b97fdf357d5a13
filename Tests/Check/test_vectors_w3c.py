"""W3C's vectors: RDF canonicalisation, and Data Integrity with EdDSA and ECDSA."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyld import jsonld
from world import VECTORS, check, entry, need_vectors, outcome, vector, vector_json

from earshot_check import canonical, contexts, jcs, keys
from earshot_check.canonical import Canonicaliser
from earshot_check.contexts import ContextLibrary
from earshot_check.reasons import Refusal
from earshot_check.trustentry import Permit, TrustEntry

_RDFC = VECTORS / "w3c-vectors" / "rdf-canon"
_TESTS: list[dict[str, Any]] = (
    [test for test in json.loads((_RDFC / "manifest.jsonld").read_text())["entries"] if "Map" not in test["type"]]
    if _RDFC.is_dir()
    else []
)
#: PyLD writes some control characters unescaped. Credentials with one are accepted only if they were signed that way.
_KNOWN = {"#test060c"}

_PINNED = {
    "https://www.w3.org/ns/credentials/examples/v2": "w3c-contexts/credentials/examples-v2.json",
    "https://w3id.org/citizenship/v4rc1": "w3c-contexts/citizenship/citizenship-v4rc1.jsonld",
}


@pytest.mark.parametrize("test", _TESTS, ids=[test["id"] for test in _TESTS])
def test_canonicalisation_gives_the_result_of_the_suite(test: dict[str, Any]) -> None:
    dataset = jsonld.JsonLdProcessor.parse_nquads((_RDFC / test["action"]).read_text())
    name = test.get("hashAlgorithm", "SHA256").lower()
    if "Negative" in test["type"]:
        with pytest.raises(Refusal, match="tooComplex"):
            canonical.canonical(dataset, name)
        return
    same = canonical.canonical(dataset, name) == (_RDFC / test["result"]).read_text()
    assert same == (test["id"] not in _KNOWN)


def test_every_file_of_the_suites_was_tried() -> None:
    need_vectors()
    assert len(_TESTS) == 65 and len(SIGNED) == 13


SIGNED = sorted(
    str(path.relative_to(VECTORS))
    for pattern in (
        "vc-di-eddsa/*/*igned*.json",
        "vc-di-eddsa/*/employ/*igned*.json",
        "vc-di-ecdsa/*/*igned*.json",
        "vc-di-ecdsa/*/employ/signed*.json",
    )
    for path in (VECTORS / "w3c-vectors").glob(pattern)
    if "proof" in path.read_text() and path.name.startswith("signed")
)


def trusted(document: Any) -> TrustEntry:
    """Returns an entry with the did:key of the proofs, and the contexts of the document."""
    proofs = document["proof"] if isinstance(document["proof"], list) else [document["proof"]]
    methods = {proof["verificationMethod"] for proof in proofs}
    issuer = document["issuer"]["id"] if isinstance(document["issuer"], dict) else document["issuer"]
    return entry(
        issuer,
        keys_by_id={method: keys.from_multibase(method.rsplit("#", 1)[1]) for method in methods},
        contexts={url: vector_json(name) for url, name in _PINNED.items()},
        permits=[Permit(frozenset({"ldp_vc"}), frozenset(), [document["@context"]], None)],
    )


@pytest.mark.parametrize("name", SIGNED)
def test_a_signed_vector_is_valid(name: str) -> None:
    document = vector_json(name)
    result = check(vector(name), [trusted(document)], "2024-01-01")
    verdict, codes = outcome(result)
    if "sd-2023" in name:
        assert (verdict, codes) == ("undecided", {"proofUnsupported"})
    else:
        assert verdict == "valid", result.findings


@pytest.mark.parametrize("name", SIGNED)
def test_a_signed_vector_with_another_name_is_invalid(name: str) -> None:
    document = vector_json(name)
    changed = json.loads(json.dumps(document).replace("JOHN", "JANE").replace("School of Examples", "School of Life"))
    assert changed != document
    result = check(json.dumps(changed), [trusted(document)], "2024-01-01")
    assert outcome(result)[0] in ("invalid", "undecided")
    assert ("signatureWrong" in outcome(result)[1]) != ("sd-2023" in name)


def test_ecdsa_sd_is_named_as_unsupported() -> None:
    document = vector_json("w3c-vectors/vc-di-ecdsa/ecdsa-sd-2023/employ/derivedRevealDocument.json")
    assert "proof" in document
    document["proof"].setdefault("verificationMethod", "did:key:zDnaepBuvsQ8cpsWrVKw8fbpGpvPeNSjVPTWoq6cRqaYzBKVP#z")
    result = check(
        json.dumps(document),
        [entry(document["issuer"]["id"], permits=trusted_permits(document), contexts=pins())],
        "2024-01-01",
    )
    assert outcome(result) == ("undecided", {"proofUnsupported"})


def trusted_permits(document: Any) -> list[Permit]:
    """Returns a permit for the contexts of a document."""
    return [Permit(frozenset({"ldp_vc"}), frozenset(), [document["@context"]], None)]


def pins() -> dict[str, Any]:
    """Returns the contexts of the vectors."""
    return {url: vector_json(name) for url, name in _PINNED.items()}


_INTERMEDIATE = [
    ("vc-di-eddsa/Ed25519Signature2020", "EdSig", "sha256"),
    ("vc-di-eddsa/eddsa-rdfc-2022", "DataInt", "sha256"),
    ("vc-di-ecdsa/ecdsa-rdfc-2019-p256", "ECDSAP256", "sha256"),
    ("vc-di-ecdsa/ecdsa-rdfc-2019-p384", "ECDSAP384", "sha384"),
    ("vc-di-ecdsa/ecdsa-rdfc-2019-p384/employ", "ECDSAP384", "sha384"),
]


@pytest.mark.parametrize(("folder", "suffix", "name"), _INTERMEDIATE)
def test_canonical_forms_are_those_of_the_vectors(folder: str, suffix: str, name: str) -> None:
    need_vectors()
    path = VECTORS / "w3c-vectors" / folder
    canonicaliser = Canonicaliser(ContextLibrary(pins()))
    signed = json.loads(next(path.glob("signed*.json")).read_text())
    del signed["proof"]
    assert canonicaliser.canonical(signed, name) == (path / f"canonDoc{suffix}.txt").read_text()
    config = json.loads((path / f"proofConfig{suffix}.json").read_text())
    assert canonicaliser.canonical(config, name) == (path / f"proofCanon{suffix}.txt").read_text()


def test_the_canonical_json_is_that_of_the_vectors() -> None:
    path = "w3c-vectors/vc-di-eddsa/eddsa-jcs-2022/"
    config = vector_json(path + "proofConfigJCS.json")
    assert jcs.canonical(config) == vector(path + "proofCanonJCS.txt")


def test_the_contexts_that_are_shipped_are_those_of_w3c() -> None:
    need_vectors()
    for url in contexts.SHIPPED:
        assert contexts.shipped(url) is not None
    for url, name in ((contexts.CREDENTIALS_V1, "v1.json"), (contexts.CREDENTIALS_V2, "v2.json")):
        assert contexts.shipped(url) == vector_json(f"w3c-contexts/credentials/{name}")


def test_keys_of_did_key_are_read() -> None:
    for name, kinds in (
        ("ed25519-x25519.json", {"Ed25519"}),
        ("nist-curves.json", {"P-256", "P-384"}),
        ("rsa.json", {"RSA"}),
    ):
        for did in vector_json(f"did-key/{name}"):
            try:
                assert keys.from_multibase(did.removeprefix("did:key:")).kind in kinds
            except keys.KeyProblem:
                assert did.startswith(("did:key:z2J9", "did:key:zUC7", "did:key:z6LS"))
