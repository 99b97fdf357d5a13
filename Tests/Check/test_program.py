"""The program: exit statuses, the clock, standard input, and the installed form."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from world import SAMPLES, TOP

PROGRAM = TOP / "Sources" / "Check" / "earshot-check"


def run(*arguments: str | Path, text: bytes | None = None) -> tuple[int, str, str]:
    """Runs the program; returns its status and output."""
    command = [sys.executable, "-I", str(PROGRAM), *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, check=False)  # noqa: S603
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def verify(folder: Path, name: str, *options: str) -> tuple[int, dict[str, Any]]:
    """Verifies a sample at the time for which its verdict is known."""
    expected = json.loads((SAMPLES / "expected.json").read_text())
    options = options or ("--at", expected["at"])
    common = ("--trust-folder", folder, "--status-folder", SAMPLES / "status")
    status, output, _ = run(*common, "verify", SAMPLES / name, "--timeout", "120", *options)
    return status, json.loads(output)


@pytest.mark.parametrize(
    ("name", "status", "verdict"),
    [
        ("ldp-ecdsa-rdfc-2019-ES256.json", 0, "valid"),
        ("sdjwt-chain.txt", 0, "valid"),
        ("mdoc-ES256.txt", 0, "valid"),
        ("ldp-forged.json", 1, "invalid"),
        ("ldp-other-issuer.json", 1, "untrusted"),
        ("ldp-expired.json", 1, "expired"),
        ("ldp-not-yet-valid.json", 1, "notYetValid"),
        ("sdjwt-revoked.txt", 1, "revoked"),
        ("ldp-status-unknown.json", 2, "undecided"),
    ],
)
def test_the_exit_status_follows_the_verdict(trust_folder: Path, name: str, status: int, verdict: str) -> None:
    found, answer = verify(trust_folder, name)
    assert (found, answer["verdict"]) == (status, verdict)
    assert answer["holder"] == "notChecked"
    assert set(answer) == {
        "verdict", "reasons", "format", "issuer", "type", "validFrom", "validUntil", "status", "claims", "unsigned",
        "interchangeable", "omitted", "holder", "digest", "checkedAt",
    }  # fmt: skip


def test_only_signed_claims_are_shown(trust_folder: Path) -> None:
    assert verify(trust_folder, "ldp-forged.json")[1]["claims"] is None
    assert verify(trust_folder, "ldp-expired.json")[1]["claims"]["residentNumber"] == "R-204-771"
    assert verify(trust_folder, "ldp-forged.json")[1]["issuer"] is None


def test_standard_input_is_read_to_its_end(trust_folder: Path) -> None:
    text = (SAMPLES / "sdjwt-chain.txt").read_bytes()
    status, output, _ = run(
        "--trust-folder", trust_folder, "verify", "-", "--timeout", "120", "--at", "2026-06-01", text=text
    )
    assert status == 0 and output.count("\n") == 1 and json.loads(output)["issuer"] == "Residents Office"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("verify",),
        ("verify", "/nonexistent"),
        ("verify", "-", "--at", "soon"),
        ("verify", "-", "--timeout", "0"),
        ("verify", "-", "--cpu-time", "-1"),
        ("verify", "-", "--cpu-time", "nan"),
        ("trust",),
        ("trust", "x"),
    ],
)
def test_wrong_usage_has_the_status_64(arguments: tuple[str, ...]) -> None:
    status, output, error = run(*arguments)
    assert status == 64 and output == "" and "earshot-check" in error


def test_without_a_trust_folder_nothing_is_trusted(tmp_path: Path) -> None:
    status, answer = verify(tmp_path / "absent", "ldp-ecdsa-rdfc-2019-ES256.json")
    assert (status, answer["verdict"], answer["reasons"][0]["code"]) == (1, "untrusted", "issuerUnknown")


def test_a_broken_trust_file_is_named_on_standard_error(trust_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "issuers.d"
    shutil.copytree(trust_folder, folder)
    (folder / "broken.toml").write_text("name =\n")
    (folder / "broken.toml").chmod(0o644)
    common = ("--trust-folder", folder, "verify", SAMPLES / "sdjwt-chain.txt", "--at", "2026-06-01", "--timeout", "120")
    status, _, error = run(*common)
    assert status == 0 and "broken.toml:1:" in error


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not here")
def test_the_clock_of_the_machine_decides(trust_folder: Path) -> None:
    def at(date: str) -> tuple[int, str, list[str]]:
        command = [
            "faketime",
            date,
            sys.executable,
            "-I",
            str(PROGRAM),
            "--trust-folder",
            str(trust_folder),
            "verify",
            "--timeout",
            "120",
            "--timeout",
            "120",
        ]
        done = subprocess.run([*command, str(SAMPLES / "sdjwt-chain.txt")], capture_output=True, check=False)  # noqa: S603
        answer = json.loads(done.stdout)
        return done.returncode, answer["verdict"], [reason["code"] for reason in answer["reasons"]]

    assert at("2027-06-01") == (0, "valid", [])
    assert at("2031-01-01") == (1, "expired", ["expired"])
    assert at("2001-01-01") == (2, "undecided", ["clockNotSet"])


def test_the_installed_program_has_its_own_folder_and_the_day_of_the_build(tmp_path: Path, trust_folder: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not here")
    make = ["make", "-s", "-C", str(TOP), "install-check", f"DESTDIR={tmp_path}", f"PREFIX={tmp_path}/usr"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1900000000"}
    subprocess.run(make, check=True, capture_output=True, env=environment)  # noqa: S603
    root = Path(f"{tmp_path}{tmp_path}/usr")
    assert 'DATE = "2030-03-17"' in (root / "share/earshot-check/earshot_check/release.py").read_text()
    program = (root / "bin/earshot-check").read_text()
    assert f'"{tmp_path}/usr/share/earshot-check"' in program and "__file__" not in program
    # The program names the folder below the prefix.
    shutil.copytree(root / "share", tmp_path / "usr" / "share")
    command = [
        str(root / "bin/earshot-check"),
        "--trust-folder",
        str(trust_folder),
        "verify",
        str(SAMPLES / "sdjwt-chain.txt"),
    ]
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603
    assert json.loads(done.stdout)["reasons"][0]["code"] == "clockNotSet" and done.returncode == 2
