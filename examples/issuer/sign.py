#!/usr/bin/python3
"""Signs the sample credential anew, as the sample issuer. Its private key is in this folder: trust it nowhere else.

examples/issuer/sign.py [FILE]      a wallet's record with a credential in it (config/credential.json)
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "Sources" / "Check"))

from earshot_check import trustfile  # noqa: E402
from earshot_check.canonical import Canonicaliser  # noqa: E402
from earshot_check.contexts import ContextLibrary  # noqa: E402
from earshot_check.encodings import to_base64url  # noqa: E402


def main(path: Path) -> None:
    """Replaces the signature in a file."""
    record = json.loads(path.read_text())
    document = record["verifiableCredential"]["credential"]
    proof = document.pop("proof")
    del proof["jws"]
    canonicaliser = Canonicaliser(ContextLibrary(trustfile.read(HERE / "issuers.d" / "sample.toml").contexts))
    # RsaSignature2018 signs the header and two hashes: of the proof options, then of the document.
    parts = [{**proof, "@context": document["@context"]}, document]
    message = b"".join(hashlib.sha256(canonicaliser.canonical(part).encode()).digest() for part in parts)
    header = to_base64url(json.dumps({"b64": False, "crit": ["b64"], "alg": "RS256"}, separators=(",", ":")).encode())
    key = load_pem_private_key((HERE / "private-key.pem").read_bytes(), None)
    assert isinstance(key, RSAPrivateKey)
    signature = key.sign(header.encode() + b"." + message, PKCS1v15(), hashes.SHA256())
    document["proof"] = {**proof, "jws": f"{header}..{to_base64url(signature)}"}
    path.write_text(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parents[1] / "config" / "credential.json")
