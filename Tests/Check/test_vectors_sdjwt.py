"""SD-JWT samples of MOSIP, and the examples that `sd-jwt` generates from the IETF's specifications."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from world import VECTORS, check, entry, need_vectors, outcome, vector

from earshot_check import certificates, jws, keys, sdjwt
from earshot_check.encodings import base64url
from earshot_check.trustentry import Permit, TrustEntry

ROWS: dict[str, dict[str, Any]] = (
    {row["file"].rsplit("/", 1)[1]: row for row in json.loads((VECTORS / "expected-sd-jwt.json").read_text())["rows"]}
    if VECTORS.is_dir()
    else {}
)
NAMES = sorted(name for name, row in ROWS.items() if (VECTORS / row["file"]).exists())
GENERATED = VECTORS / "ietf" / "sd-jwt-generated"
#: Those in JSON serialization, which is not a form of SD-JWT VC, have no such file.
EXAMPLES = sorted(path.parent.name for path in GENERATED.glob("*/sd_jwt_issuance.txt"))
#: The key with which `sd-jwt` signs its examples.
_EXAMPLE_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "b28d4MwZMjw8-00CG4xfnn9SLMVMM19SlqZpVb_uNtQ",
    "y": "Xv5zWwuoaTgdS6hV43yI6gBwTnjukmFQQnJ_kCxzqk8",
}


def text_of(name: str) -> str:
    """Returns a sample."""
    need_vectors()
    return vector(ROWS[name]["file"]).decode().strip()


def trusted(name: str) -> TrustEntry:
    """Returns an entry that pins the last certificate of a sample, be it a root or not."""
    header = json.loads(base64url(text_of(name).split(".")[0]))
    chain = [certificates.from_der(base64.b64decode(item)) for item in header["x5c"]]
    permit = Permit(frozenset({"vc+sd-jwt", "dc+sd-jwt"}), frozenset(), None, None, allows_missing_typ=True)
    return entry(ROWS[name]["iss"], roots=[chain[-1]], permits=[permit])


def test_the_vectors_are_there() -> None:
    need_vectors()
    assert len(NAMES) >= 8 and len(EXAMPLES) >= 20


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_gets_the_verdict_that_was_measured(name: str) -> None:
    row = ROWS[name]
    if not row["x5c"]:
        # Its key was not published, and nothing else names its issuer.
        assert outcome(check(text_of(name), [], "2026-01-01")) == ("untrusted", {"issuerUnknown"})
        return
    result = check(text_of(name), [trusted(name)], "2025-12-01")
    verdict, codes = outcome(result)
    if row["signature with x5c leaf"] != "valid":
        # Its payload is not base64url, which is detected before the signature is checked.
        assert (verdict, codes) == ("invalid", {"malformed"})
    elif row["disclosures not referenced"]:
        assert (verdict, codes) == ("invalid", {"disclosureUnused"})
    else:
        assert verdict == "valid"
        assert codes == ({"keyBindingNotChecked"} if "KbJwt" in name else set())
        assert result.type == row["vct"]
        assert len(sdjwt.parse(text_of(name)).disclosures) == row["disclosures used"]


@pytest.mark.parametrize("name", [name for name in NAMES if ROWS[name]["exp"] and ROWS[name]["x5c"]])
def test_a_sample_is_expired_after_its_expiry(name: str) -> None:
    codes = outcome(check(text_of(name), [trusted(name)], "2027-12-01"))
    assert codes[0] == "expired" and {"expired", "certificateExpired"} <= codes[1]


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_the_ietf_opens_to_the_claims_that_its_author_expects(name: str) -> None:
    folder = GENERATED / name
    text = (folder / "sd_jwt_issuance.txt").read_text().strip()
    shown = (folder / "sd_jwt_presentation.txt").read_text().strip()
    key = keys.from_jwk(_EXAMPLE_KEY)
    for form, expected in ((text, "user_claims.json"), (shown, "verified_contents.json")):
        token = sdjwt.parse(form)
        assert token.jws.verify(key)
        opened = sdjwt.claims(token)
        wanted = json.loads((folder / expected).read_text())
        for name_, value in wanted.items():
            if name_ not in ("_sd_alg",):
                assert opened.get(name_) == value or name_ in ("iat", "exp", "iss", "cnf")


def test_a_jws_of_an_example_does_not_verify_with_another_key() -> None:
    need_vectors()
    token = jws.parse((GENERATED / "simple" / "sd_jwt_issuance.txt").read_text().split("~")[0])
    other = dict(_EXAMPLE_KEY, x=_EXAMPLE_KEY["y"], y=_EXAMPLE_KEY["x"])
    with pytest.raises(keys.KeyProblem):
        keys.from_jwk(other)
    holder = {
        "kty": "EC",
        "crv": "P-256",
        "x": "TCAER19Zvu3OHF4j4W4vfSVoHIP1ILilDls7vCeGemc",
        "y": "ZxjiWWbZMQGHVWKVQ4hbSIirsVfuecCE6t4jT9F2HZQ",
    }
    assert not token.verify(keys.from_jwk(holder))
