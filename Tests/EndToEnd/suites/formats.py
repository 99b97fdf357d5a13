"""The phones' own implementation of the protocol, against the vectors that were checked with the original libraries."""
from __future__ import annotations

import base64
import json
from pathlib import Path

from harness.runner import Suite
from harness.stage import Stage
from phones import tuvali
from suites import mesh_strict, mesh_vectors

suite = Suite("formats")
VECTORS = Path(__file__).parents[2] / "Protocols/TuvaliTests/Vectors/tuvali.json"


@suite.test("The phones speak the protocol of the vectors")
async def agrees(stage: Stage) -> None:
    vectors = json.loads(VECTORS.read_text())
    _keys(vectors["keys"], vectors["identify"])
    _frames(vectors)
    _advertising(vectors)
    _reports(vectors)
    for case in vectors["crc"]:
        assert f"{tuvali.crc(bytes.fromhex(case['data_hex'])):04x}" == case["kermit_hex"], case


@suite.test("The Bitchat phones speak the protocol of the vectors")
async def bitchat_agrees(stage: Stage) -> None:
    mesh_vectors.check()


@suite.test("The Bitchat phones refuse what the apps refuse")
async def bitchat_refuses(stage: Stage) -> None:
    await mesh_strict.check()


def _session(keys: dict) -> tuvali.Session:
    verifier = bytes.fromhex(keys["verifier_public_hex"])
    return tuvali.Session(
        verifier, private=bytes.fromhex(keys["wallet_private_hex"]), nonce=bytes.fromhex(keys["nonce_hex"])
    )


def _keys(keys: dict, identify: dict) -> None:
    session = _session(keys)
    assert session.key.hex() == keys["hkdf"]["key_info_SKVerifier_hex"]
    assert session.identify.hex() == identify["payload_hex"]


def _frames(vectors: dict) -> None:
    session = _session(vectors["keys"])
    for payload in vectors["payloads"]:
        frame = bytes.fromhex(payload["frame_hex"])
        assert session.open(frame) == base64.b64decode(payload["plaintext_utf8_base64"]), payload["name"]
    exact = vectors["exact_multiple"]
    cut = tuvali.chunks(bytes.fromhex(exact["frame_hex"]), exact["max_data"])
    assert b"".join(cut).hex() == "".join(exact["chunks_hex"])


def _advertising(vectors: dict) -> None:
    for case in vectors["uri"]["cases"]:
        for spelling in ("v0_5_2", "v0_4_1_to_v0_5_1"):
            invitation = tuvali.Invitation.parse(case[spelling])
            assert invitation.name == case["name"]
            assert invitation.key.hex() == vectors["keys"]["verifier_public_hex"]


def _reports(vectors: dict) -> None:
    for case in vectors["transfer_reports"]:
        for parse in (tuvali.android_report, tuvali.ios_report):
            report = parse(bytes.fromhex(case["frame_hex"]))
            assert report.kind.value == case["type"], case
            assert list(report.missing) == case["sequences_on_wire"], case
