"""mdoc samples of MOSIP, and Annex D of ISO 18013-5."""

from __future__ import annotations

import json
from typing import Any

import cbor2
import pytest
from world import VECTORS, check, entry, need_vectors, outcome, vector, vector_json

from earshot_check import certificates, mdoc
from earshot_check.encodings import to_base64url
from earshot_check.trustentry import TrustEntry

ROWS: dict[str, dict[str, Any]] = (
    {row["file"].rsplit("/", 1)[1]: row for row in json.loads((VECTORS / "expected-mdoc.json").read_text())["rows"]}
    if VECTORS.is_dir()
    else {}
)
NAMES = sorted(name for name, row in ROWS.items() if (VECTORS / row["file"]).exists())
_EXPECTED = {
    "legacy-valid.txt": ("valid", set()),
    "legacy-bad-digest.txt": ("invalid", {"digestWrong"}),
    "legacy-bad-signature.txt": ("invalid", {"signatureWrong"}),
    "legacy-country-mismatch.txt": ("invalid", {"countryMismatch"}),
    "legacy-doctype-mismatch.txt": ("invalid", {"documentTypeMismatch"}),
    "legacy-no-certificate.txt": ("invalid", {"proofMissing"}),
    "legacy-no-issuerauth.txt": ("invalid", {"proofMissing"}),
    "legacy-no-outer-doctype.txt": ("valid", set()),
    "not-cbor-map.txt": ("invalid", {"malformed"}),
    "latest-issuersigned-valid.txt": ("valid", set()),
}


def text_of(name: str) -> str:
    """Returns a sample."""
    need_vectors()
    return vector(ROWS[name]["file"]).decode().strip()


def pinned(text: str, **options: Any) -> TrustEntry:
    """Returns an entry that pins the certificate of the signer itself: the roots of the samples are not published."""
    return entry(roots=[mdoc.parse(text).chain[0]], **options)


def test_the_vectors_are_there() -> None:
    need_vectors()
    assert len(NAMES) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_gets_the_verdict_that_its_author_expects(name: str) -> None:
    at = "2025-01-01" if name.startswith(("legacy", "not")) else "2026-11-01"
    try:
        entries = [pinned(text_of(name))]
    except Exception:  # the sample has no certificate, or none that can be found
        entries = []
    assert outcome(check(text_of(name), entries, at)) == _EXPECTED[name]


def test_the_mode_of_iso_takes_the_oldest_sample_which_follows_the_standard() -> None:
    text = text_of("legacy-valid.txt")
    assert outcome(check(text, [pinned(text, is_iso=True)], "2025-01-01")) == ("valid", set())


def test_a_sample_is_expired_after_its_certificate() -> None:
    text = text_of("legacy-valid.txt")
    assert outcome(check(text, [pinned(text)], "2026-01-01")) == ("expired", {"expired", "certificateExpired"})


def test_a_self_made_certificate_with_the_name_of_a_root_is_refused() -> None:
    text, other = text_of("legacy-valid.txt"), text_of("legacy-no-outer-doctype.txt")
    assert outcome(check(text, [pinned(other)], "2025-01-01")) == ("untrusted", {"issuerUnknown"})


def annex_d() -> str:
    """Returns the response of Annex D."""
    data = bytes.fromhex(vector_json("iso-18013-5/annex-d.json")["ISO_18013_5_ANNEX_D_DEVICE_RESPONSE"])
    return to_base64url(data)


def test_annex_d_is_valid_in_the_mode_of_iso_with_its_six_elements() -> None:
    result = check(annex_d(), [pinned(annex_d(), is_iso=True)], "2021-01-01")
    assert outcome(result) == ("valid", set())
    assert set(result.claims["org.iso.18013.5.1"]) == {
        "family_name", "issue_date", "expiry_date", "document_number", "portrait", "driving_privileges",
    }  # fmt: skip
    assert result.claims["org.iso.18013.5.1"]["family_name"] == "Doe"
    assert result.claims["org.iso.18013.5.1"]["expiry_date"] == "2024-10-20"


def test_annex_d_with_another_name_has_a_wrong_digest() -> None:
    data = bytes.fromhex(vector_json("iso-18013-5/annex-d.json")["ISO_18013_5_ANNEX_D_DEVICE_RESPONSE"])
    text = to_base64url(data.replace(b"cDoe", b"cDof"))
    assert outcome(check(text, [pinned(annex_d())], "2021-01-01")) == ("invalid", {"digestWrong"})


def test_the_roots_of_the_aamva_do_not_vouch_for_annex_d() -> None:
    need_vectors()
    roots = [
        certificates.from_pem((VECTORS / "iso-18013-5" / name).read_text())
        for name in ("aamva_ca_root.crt", "aamva_ca_intermediate.crt")
    ]
    assert certificates.chain([roots[1]], [roots[0]]) == [roots[1], roots[0]]
    assert outcome(check(annex_d(), [entry(roots=roots)], "2021-01-01")) == ("untrusted", {"issuerUnknown"})


def isomdl(name: str) -> bytes:
    """Returns a sample of isomdl."""
    return bytes.fromhex(vector(f"iso-18013-5/{name}").decode())


def test_the_sample_of_isomdl_is_valid() -> None:
    text = to_base64url(isomdl("issuer_signed.cbor"))
    assert outcome(check(text, [pinned(text)], "2021-01-01")) == ("valid", set())


def test_the_response_of_isomdl_has_no_certificate() -> None:
    data = isomdl("device_response.cbor")
    assert cbor2.loads(data)["documents"]
    assert outcome(check(to_base64url(data), [], "2021-01-01")) == ("invalid", {"proofMissing"})
