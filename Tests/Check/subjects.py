"""Genuine credentials for attacks: the samples in the tree, and published samples beside a checkout."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cbor2
import test_vectors_linkeddata
import test_vectors_mdoc
import test_vectors_sdjwt
import test_vectors_w3c
from world import SAMPLES, VECTORS, time, vector

from earshot_check import encodings
from earshot_check.check import Checker
from earshot_check.dates import Clock
from earshot_check.trust import TrustFolder
from earshot_check.verdict import Result


@dataclass(frozen=True)
class Subject:
    """A genuine credential, with a trust folder and a time under which it is valid."""

    name: str
    text: str
    trust: TrustFolder
    at: str
    status: Path = SAMPLES / "status"

    def check(self, data: str | bytes, at: str | None = None) -> Result:
        """Checks another text under the same conditions."""
        text = data.encode() if isinstance(data, str) else data
        return Checker(self.trust, Clock(time(at or self.at)), self.status).check(text)


def ours(trust: TrustFolder) -> list[Subject]:
    """Returns the valid samples of the tree."""
    expected = json.loads((SAMPLES / "expected.json").read_text())
    return [
        Subject(name, (SAMPLES / name).read_text(), trust, expected["at"])
        for name, row in sorted(expected["samples"].items())
        if row["verdict"] == "valid"
    ]


def others() -> Iterator[Subject]:
    """Yields the genuine published samples; none if they are not beside the checkout."""
    if not VECTORS.is_dir():
        return
    for name in test_vectors_linkeddata.GENUINE:
        entry = test_vectors_linkeddata.trusted(name, drops=True, accepts_unknown_status=True)
        text = vector(test_vectors_linkeddata.ROWS[name]["file"]).decode()
        yield Subject(name, text, TrustFolder([entry]), test_vectors_linkeddata.valid_time(name))
    for name in test_vectors_sdjwt.NAMES:
        row = test_vectors_sdjwt.ROWS[name]
        if row["x5c"] and row["signature with x5c leaf"] == "valid" and not row["disclosures not referenced"]:
            entry = test_vectors_sdjwt.trusted(name)
            yield Subject(name, test_vectors_sdjwt.text_of(name), TrustFolder([entry]), "2025-12-01")
    for text, at in (
        (test_vectors_mdoc.text_of("legacy-valid.txt"), "2025-01-01"),
        (test_vectors_mdoc.annex_d(), "2021-01-01"),
    ):
        yield Subject("mdoc", text, TrustFolder([test_vectors_mdoc.pinned(text)]), at)
    for name in test_vectors_w3c.SIGNED:
        if "sd-2023" not in name:
            text = vector(name).decode()
            yield Subject(name, text, TrustFolder([test_vectors_w3c.trusted(json.loads(text))]), "2024-01-01")


def spots(text: str) -> Iterator[tuple[str, str]]:
    """Yields a text with one byte changed inside each part that a signature covers, with the name of the part."""
    stripped = text.strip()
    if stripped.startswith("{"):
        yield from _json_spots(json.loads(stripped))
    elif "~" in stripped:
        parts = stripped.split("~")
        body = parts[0].split(".")
        for index in range(3):
            yield f"JWT part {index}", "~".join([".".join(_changed(body, index)), *parts[1:]])
        for index in range(1, len(parts) - 1):
            yield f"disclosure {index}", "~".join(_changed(parts, index))
    else:
        data = encodings.base64url(stripped)
        for index in range(0, len(data), max(1, len(data) // 40)):
            changed = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
            yield f"byte {index}", encodings.to_base64url(changed)


def _changed(parts: list[str], index: int) -> list[str]:
    part = parts[index]
    middle = len(part) // 2
    other = "A" if part[middle] != "A" else "B"
    return [*parts[:index], part[:middle] + other + part[middle + 1 :], *parts[index + 1 :]]


def _json_spots(record: Any) -> Iterator[tuple[str, str]]:
    document = record.get("verifiableCredential", {}).get("credential", record)
    if isinstance(document, str):
        for name, text in spots(document):
            yield name, json.dumps({"verifiableCredential": {"credential": text}})
        return
    for path, value in _leaves(document):
        if isinstance(value, str) and value:
            middle = len(value) // 2
            changed: Any = value[:middle] + ("x" if value[middle] != "x" else "y") + value[middle + 1 :]
        elif isinstance(value, int):
            changed = value + 1 if not isinstance(value, bool) else not value
        else:
            continue
        yield ".".join(map(str, path)), json.dumps(replaced(document, path, changed))


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def leaves(value: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Returns the leaves of a JSON value with their paths."""
    return list(_leaves(value))


def replaced(value: Any, path: tuple[Any, ...], item: Any) -> Any:
    """Returns a copy of a JSON value with another item at a path."""
    if not path:
        return item
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], item)
    return copy


def with_other_signature(text: str) -> str:
    """Returns a credential whose signature has one bit changed in its middle, without a change of form or length."""
    stripped = text.strip()
    if stripped.startswith("{"):
        record = json.loads(stripped)
        inner = record.get("verifiableCredential", {}).get("credential", record)
        if isinstance(inner, str):
            return json.dumps({"verifiableCredential": {"credential": with_other_signature(inner)}})
        proof = dict(inner["proof"])
        if "jws" in proof:
            proof["jws"] = _other_jws(proof["jws"])
        else:
            value = encodings.multibase(proof["proofValue"])
            proof["proofValue"] = "z" + encodings.to_base58(_flipped(value))
        return json.dumps({**inner, "proof": proof})
    if "~" in stripped:
        token, rest = stripped.split("~", 1)
        return f"{_other_jws(token)}~{rest}"
    document = cbor2.loads(encodings.base64url(stripped))
    signed = document.get("issuerSigned", document)
    auth = signed["issuerAuth"]
    parts = auth.value if isinstance(auth, cbor2.CBORTag) else auth
    parts[3] = _flipped(parts[3])
    return encodings.to_base64url(cbor2.dumps(document))


def _other_jws(text: str) -> str:
    head, _, signature = text.rpartition(".")
    return f"{head}.{encodings.to_base64url(_flipped(encodings.base64url(signature)))}"


def _flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def credential_of(text: str) -> Any:
    """Returns the JSON-LD document in a text, or None."""
    if not text.strip().startswith("{"):
        return None
    record = json.loads(text)
    document = record.get("verifiableCredential", {}).get("credential", record)
    return document if isinstance(document, dict) else None


def other_keys(trust: TrustFolder, algorithm_keys: dict[str, Any]) -> TrustFolder:
    """Returns a trust folder with equal IDs, and other keys of the same kinds."""
    entries = []
    for entry in trust.entries:
        keys = {name: algorithm_keys[key.kind] for name, key in entry.keys.items()}
        entries.append(dataclasses.replace(entry, keys=keys))
    return TrustFolder(entries)
