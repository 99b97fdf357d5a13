#!/usr/bin/python3
"""Makes the samples of this folder anew: credentials of each format and proof, signed by issuers that exist here only.

    Tests/Check/samples/generate.py

Keys are made anew and thrown away. expected.json says which verdict each sample gets, with which reasons.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import shutil
import sys
import zlib
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2] / "Sources" / "Check"), str(HERE.parent)]

import issuer  # noqa: E402
from issuer import LinkedDataIssuer  # noqa: E402

from earshot_check import encodings  # noqa: E402
from earshot_check.contexts import CREDENTIALS_V1, CREDENTIALS_V2, SECURITY_V3  # noqa: E402
from earshot_check.mdoc import DOCUMENT_SIGNER  # noqa: E402
from earshot_check.status import file_name  # noqa: E402

#: The time at which expected.json holds.
AT = "2026-06-01T00:00:00Z"
DID = "did:web:residents.example"
SD_JWT_ISSUER = "https://residents.example"
CONTEXT = "https://residents.example/contexts/resident.jsonld"
LISTS = {
    "bits": "https://residents.example/status/1",
    "tokens": "https://residents.example/status/tokens",
}
REVOKED, SUSPENDED, GOOD = 7, 9, 11

_TERM = "https://residents.example/terms#"
CONTEXT_DOCUMENT = {
    "@context": {
        "@version": 1.1,
        "@protected": True,
        "ResidentCredential": _TERM + "ResidentCredential",
        "fullName": {"@id": _TERM + "fullName", "@context": {"value": "@value", "language": "@language"}},
        "dateOfBirth": _TERM + "dateOfBirth",
        "residentNumber": _TERM + "residentNumber",
        "face": _TERM + "face",
        "householdSize": _TERM + "householdSize",
        "address": {"@id": _TERM + "address", "@context": {"street": _TERM + "street", "city": _TERM + "city"}},
        # Two names for one thing, as in most contexts that issuers publish.
        "district": _TERM + "area",
        "village": _TERM + "area",
    }
}
SUBJECT: dict[str, Any] = {
    "id": "did:example:holder",
    "fullName": [{"value": "Asha Example", "language": "eng"}, {"value": "आशा उदाहरण", "language": "hin"}],
    "dateOfBirth": "1991-04-17",
    "residentNumber": "R-204-771",
    "householdSize": 4,
    "address": {"street": "17 Banyan Lane", "city": "Sample Town"},
    "face": "data:image/jpeg;base64,/9j/4AAQSkZJRgABAQAAAQABAAD/2Q==",
}


class Samples:
    """Writes samples and the expected verdict of each."""

    def __init__(self) -> None:
        self.expected: dict[str, dict[str, Any]] = {}
        self.keys: list[tuple[str, str]] = []

    def add(self, name: str, content: Any, verdict: str, *codes: str) -> None:
        """Writes a sample: text, or an object as JSON."""
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=1)
        (HERE / name).write_text(text + "\n")
        self.expected[name] = {"verdict": verdict, "reasons": sorted(codes)}

    def key(self, algorithm: str, name: str) -> issuer.PrivateKey:
        """Makes a key of the trusted issuer."""
        key = issuer.new_key(algorithm)
        self.keys.append((name, issuer.public_pem(key)))
        return key


def document(**changes: Any) -> dict[str, Any]:
    """Returns an unsigned credential of the data model 1.1."""
    return {
        "@context": [CREDENTIALS_V1, CONTEXT],
        "id": "urn:uuid:5f0c9a1e-3b7d-4a52-9c86-21d47e8b6f30",
        "type": ["VerifiableCredential", "ResidentCredential"],
        "issuer": DID,
        "issuanceDate": "2026-01-01T00:00:00Z",
        "expirationDate": "2028-01-01T00:00:00Z",
        "credentialSubject": copy.deepcopy(SUBJECT),
        **changes,
    }


def document_v2(**changes: Any) -> dict[str, Any]:
    """Returns an unsigned credential of the data model 2.0."""
    made = document(**{"@context": [CREDENTIALS_V2, CONTEXT]}, validFrom="2026-01-01T00:00:00Z")
    made["validUntil"] = made.pop("expirationDate")
    del made["issuanceDate"]
    return {**made, **changes}


def linked_data(samples: Samples) -> None:
    """Samples of ldp_vc."""
    contexts = {CONTEXT: CONTEXT_DOCUMENT}
    for suite, algorithm in issuer.SUITES:
        method = f"{DID}#{suite}-{algorithm}"
        by = LinkedDataIssuer(suite, algorithm, samples.key(algorithm, method), method, contexts)
        made = document_v2() if "-20" in suite else document()
        samples.add(f"ldp-{suite}-{algorithm}.json", by.issue(made), "valid")
    method = f"{DID}#key-0"
    key = samples.key("EdDSA", method)
    by = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", key, method, contexts)
    mosip = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", key, method, contexts, options_context=SECURITY_V3)
    samples.add("ldp-options-as-mosip.json", mosip.issue(document_v2()), "valid")
    samples.add("ldp-expired.json", by.issue(document(expirationDate="2026-02-01T00:00:00Z")), "expired", "expired")
    samples.add(
        "ldp-not-yet-valid.json", by.issue(document(issuanceDate="2027-01-01T00:00:00Z")), "notYetValid", "notYetValid"
    )

    subject = {**SUBJECT, "nickname": "Ash"}
    samples.add(
        "ldp-claim-not-signed.json", by.issue(document(credentialSubject=subject)), "invalid", "claimsNotSigned"
    )
    subject = {**SUBJECT, "district": "Lakes", "village": "Lakeside"}
    samples.add(
        "ldp-interchangeable.json", by.issue(document(credentialSubject=subject)), "valid", "claimsInterchangeable"
    )

    forged = by.issue(document())
    forged["credentialSubject"]["residentNumber"] = "R-204-772"
    samples.add("ldp-forged.json", forged, "invalid", "signatureWrong")
    stranger = LinkedDataIssuer("Ed25519Signature2020", "EdDSA", issuer.new_key("EdDSA"), method, contexts)
    samples.add("ldp-other-key.json", stranger.issue(document()), "invalid", "signatureWrong")
    samples.add(
        "ldp-other-issuer.json",
        stranger.issue(document(issuer="did:web:elsewhere.example")),
        "untrusted",
        "issuerUnknown",
    )

    for name, index, purpose, verdict, codes in (
        ("not-revoked", GOOD, "revocation", "valid", ()),
        ("revoked", REVOKED, "revocation", "revoked", ("revoked",)),
    ):
        status = {
            "id": f"{LISTS['bits']}#{index}",
            "type": "BitstringStatusListEntry",
            "statusPurpose": purpose,
            "statusListIndex": str(index),
            "statusListCredential": LISTS["bits"],
        }
        samples.add(f"ldp-{name}.json", mosip.issue(document_v2(credentialStatus=status)), verdict, *codes)
    status = {**status, "statusListCredential": "https://residents.example/status/2"}
    samples.add(
        "ldp-status-unknown.json", mosip.issue(document_v2(credentialStatus=status)), "undecided", "statusUnknown"
    )
    bits = bytearray(16384)
    bits[REVOKED // 8] |= 0x80 >> REVOKED % 8
    list_document = {
        "@context": [CREDENTIALS_V2],
        "id": LISTS["bits"],
        "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "issuer": DID,
        "validFrom": "2026-05-31T00:00:00Z",
        "credentialSubject": {
            "id": LISTS["bits"] + "#list",
            "type": "BitstringStatusList",
            "statusPurpose": "revocation",
            "encodedList": "u" + encodings.to_base64url(gzip.compress(bytes(bits), mtime=0)),
        },
    }
    store(LISTS["bits"], json.dumps(mosip.issue(list_document)))
    samples.add("envelope.json", envelope(by.issue(document()), "ldp_vc"), "valid")


def envelope(credential: Any, format_: str) -> dict[str, Any]:
    """Returns a wallet's record with a credential in it, and with private data that must not be output."""
    return {
        "vcMetadata": {"format": format_, "isVerified": True, "mosipIndividualId": "PRIVATE"},
        "generatedOn": "2026-01-01T00:00:00.000Z",
        "credential": None,
        "verifiableCredential": {"credential": credential, "credentialConfigurationId": "ResidentCredential"},
        "hashedId": "PRIVATE",
        "privateKey": "PRIVATE",
        "OTP": "PRIVATE",
    }


def sd_jwt(samples: Samples, root: tuple[Any, Any]) -> None:
    """Samples of vc+sd-jwt and dc+sd-jwt."""
    seconds: dict[str, Any] = {"nbf": 1767225600, "exp": 1830297600}
    payload = {"iss": SD_JWT_ISSUER, "vct": "https://residents.example/resident", **seconds, "country": "ZZ"}
    hidden = {"given_name": "Asha", "family_name": "Example", "address": {"street": "17 Banyan Lane"}}
    for algorithm in ("EdDSA", "ES256", "ES384", "ES256K"):
        name = f"{SD_JWT_ISSUER}#{algorithm}"
        key = samples.key(algorithm, name)
        samples.add(f"sdjwt-{algorithm}.txt", issuer.sd_jwt(payload, hidden, algorithm, key, kid=algorithm), "valid")
    key = issuer.new_key("ES256")
    chain = [issuer.certificate("Residents Office, SD-JWT", key, root)]

    def make(body: dict[str, Any]) -> str:
        return issuer.sd_jwt(body, hidden, "ES256", key, chain=chain, typ="vc+sd-jwt")

    good = make(payload)
    samples.add("sdjwt-chain.txt", good, "valid")
    samples.add("sdjwt-in-envelope.json", envelope(good, "vc+sd-jwt"), "valid")
    samples.add("sdjwt-expired.txt", make({**payload, "exp": 1769904000}), "expired", "expired")
    samples.add(
        "sdjwt-other-type.txt",
        make({**payload, "vct": "https://residents.example/driver"}),
        "untrusted",
        "typeNotAllowed",
    )
    head, _, rest = good.split("~", 2)
    changed, _ = issuer.disclosure("salt given_name", "given_name", "Usha")
    samples.add("sdjwt-forged.txt", "~".join([head, changed, rest]), "invalid", "disclosureUnused")
    other = issuer.certificate("Residents Office, SD-JWT", key)
    text = issuer.sd_jwt(payload, hidden, "ES256", key, chain=[other])
    samples.add("sdjwt-self-made.txt", text, "untrusted", "chainUntrusted")
    for name, index, verdict, codes in (
        ("not-revoked", GOOD, "valid", ()),
        ("revoked", REVOKED, "revoked", ("revoked",)),
        ("suspended", SUSPENDED, "revoked", ("suspended",)),
    ):
        status = {"status_list": {"idx": index, "uri": LISTS["tokens"]}}
        samples.add(f"sdjwt-{name}.txt", make({**payload, "status": status}), verdict, *codes)
    values = bytearray(64)
    for index, value in ((REVOKED, 1), (SUSPENDED, 2)):
        values[index // 4] |= value << index % 4 * 2
    body = {
        "iss": SD_JWT_ISSUER,
        "sub": LISTS["tokens"],
        "iat": 1780185600,
        "status_list": {"bits": 2, "lst": encodings.to_base64url(zlib.compress(bytes(values)))},
    }
    header = {"typ": "statuslist+jwt", "kid": "status"}
    signer = samples.key("ES256", f"{SD_JWT_ISSUER}#status")
    store(LISTS["tokens"], issuer.compact(header, json.dumps(body).encode(), "ES256", signer))


def mdoc(samples: Samples, root: tuple[Any, Any], mosip_root: tuple[Any, Any]) -> None:
    """Samples of mso_mdoc."""
    elements = {
        "family_name": "Example",
        "given_name": "Asha",
        "issuing_country": "ZZ",
        "portrait": b"\xff\xd8\xff\xd9",
    }
    for algorithm in ("ES256", "ES384", "EdDSA"):
        key = issuer.new_key(algorithm)
        signer = issuer.certificate(f"Signer {algorithm}", key, root, purposes=(DOCUMENT_SIGNER,))
        samples.add(f"mdoc-{algorithm}.txt", issuer.mdoc(elements, [signer], algorithm, key), "valid")
    key = issuer.new_key("ES256")
    signer = issuer.certificate("Signer", key, root, purposes=(DOCUMENT_SIGNER,))
    good = issuer.mdoc(elements, [signer], "ES256", key)
    samples.add("mdoc-in-envelope.json", envelope(good, "mso_mdoc"), "valid")
    text = issuer.mdoc(elements, [signer], "ES256", key, until="2026-02-01T00:00:00Z")
    samples.add("mdoc-expired.txt", text, "expired", "expired")
    text = issuer.mdoc({**elements, "issuing_country": "XX"}, [signer], "ES256", key)
    samples.add("mdoc-other-country.txt", text, "invalid", "countryMismatch")
    text = issuer.mdoc(elements, [signer], "ES256", key, is_mosip=True)
    samples.add("mdoc-not-conformant.txt", text, "invalid", "notConformant")
    unfit = issuer.certificate("Web server", key, root)
    samples.add("mdoc-other-purpose.txt", issuer.mdoc(elements, [unfit], "ES256", key), "untrusted", "certificateUnfit")
    stranger = issuer.certificate("Signer", key)
    samples.add("mdoc-self-made.txt", issuer.mdoc(elements, [stranger], "ES256", key), "untrusted", "issuerUnknown")
    signer = issuer.certificate("Signer of Certify", key, mosip_root, is_ca=True, signs=True)
    samples.add("mdoc-mosip.txt", issuer.mdoc(elements, [signer], "ES256", key, is_mosip=True), "valid")
    forged = encodings.base64url(good).replace(b"gExample", b"gExampel")
    samples.add("mdoc-forged.txt", encodings.to_base64url(forged), "invalid", "digestWrong")


def store(url: str, text: str) -> None:
    """Stores a status list as `earshot-check status update` does."""
    (HERE / "status").mkdir(exist_ok=True)
    (HERE / "status" / file_name(url)).write_text(text)


def trust(samples: Samples, root: Any, mosip_root: Any) -> None:
    """Writes the trust folder of the samples."""
    folder = HERE / "trust"
    folder.mkdir(exist_ok=True)
    data = json.dumps(CONTEXT_DOCUMENT, indent=1).encode() + b"\n"
    (folder / "resident.jsonld").write_bytes(data)
    keys = "".join(f'\n[[keys]]\nid = "{name}"\npem = """\n{pem}"""\n' for name, pem in samples.keys)
    (folder / "residents.toml").write_text(f'''# The issuer of the samples in this folder. generate.py writes this file.
name = "Residents Office"
identifiers = ["{DID}", "{SD_JWT_ISSUER}"]

[[contexts]]
url = "{CONTEXT}"
file = "resident.jsonld"
sha256 = "{hashlib.sha256(data).hexdigest()}"

[[credentials]]
formats = ["ldp_vc"]
types = ["ResidentCredential"]
contexts = [
  ["{CREDENTIALS_V1}", "{CONTEXT}"],
  ["{CREDENTIALS_V2}", "{CONTEXT}"],
]

[[credentials]]
formats = ["vc+sd-jwt", "dc+sd-jwt"]
types = ["https://residents.example/resident"]

[[credentials]]
formats = ["mso_mdoc"]
types = ["org.iso.18013.5.1.mDL"]

[[status_lists]]
url = "{LISTS["bits"]}"
max_age = "7d"

[[status_lists]]
url = "{LISTS["tokens"]}"
max_age = "7d"

[[roots]]
pem = """
{issuer.pem(root)}"""
{keys}''')
    (folder / "certify.toml").write_text(f'''# A second issuer, whose mdocs have the deviations of MOSIP's Certify.
name = "Certify Test"
mode = "mosip"

[[credentials]]
formats = ["mso_mdoc"]
types = ["org.iso.18013.5.1.mDL"]

[[roots]]
pem = """
{issuer.pem(mosip_root)}"""
''')


def main() -> None:
    """Writes everything."""
    for path in HERE.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix in (".json", ".txt"):
            path.unlink()
    samples = Samples()
    key, mosip_key = issuer.new_key("ES256"), issuer.new_key("RS256")
    root = issuer.certificate("Residents Root", key, is_ca=True, begin=datetime(2024, 1, 1, tzinfo=timezone.utc))
    mosip_root = issuer.certificate("Certify Root", mosip_key, is_ca=True)
    linked_data(samples)
    sd_jwt(samples, (root, key))
    mdoc(samples, (root, key), (mosip_root, mosip_key))
    trust(samples, root, mosip_root)
    text = json.dumps({"at": AT, "samples": samples.expected}, indent=1)
    (HERE / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
