"""Tests the texts that debian/rules adds to the scripts of the packages, with stand-ins for systemd's programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
DEBIAN = TOP / "debian"


class Machine:
    """A folder with stand-ins for systemctl, deb-systemd-invoke and the daemon, which record their arguments."""

    def __init__(self, folder: Path, *, is_active: bool, is_valid: bool) -> None:
        self.folder = folder
        (folder / "systemd").mkdir()
        self._program("systemctl", f'case "$*" in *is-active*) exit {0 if is_active else 3} ;; esac')
        self._program("deb-systemd-invoke", "")
        self._program("earshotd", f"echo stdout; echo earshot.conf:3: wrong >&2; exit {0 if is_valid else 1}")

    def _program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.folder}/calls\n{body}\n')
        path.chmod(0o755)

    def run(self, script: str, first: str, *arguments: str) -> tuple[list[str], str]:
        """Returns the calls of deb-systemd-invoke, and the text on standard error."""
        text = (DEBIAN / script).read_text().replace("/usr/bin/@UNIT@", f"{self.folder}/earshotd")
        text = text.replace("@UNIT@", "earshotd").replace("@FIRST@", first)
        text = text.replace("/run/systemd/system", f"{self.folder}/systemd")
        result = subprocess.run(
            ["sh", "-eu", "-c", text, "script", *arguments],
            env={"PATH": f"{self.folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [line for line in lines if line.startswith("deb-systemd-invoke")], result.stderr


def test_the_installation_starts_the_service_that_is_meant_to_start(tmp_path: Path) -> None:
    machine = Machine(tmp_path, is_active=False, is_valid=True)
    assert machine.run("restart.sh", "start", "configure", "")[0] == ["deb-systemd-invoke start earshotd.service"]


def test_the_installation_starts_no_service_that_uses_the_network(tmp_path: Path) -> None:
    machine = Machine(tmp_path, is_active=False, is_valid=True)
    assert machine.run("restart.sh", "", "configure", "")[0] == []


def test_an_upgrade_restarts_a_running_service_with_a_valid_configuration(tmp_path: Path) -> None:
    machine = Machine(tmp_path, is_active=True, is_valid=True)
    calls, _ = machine.run("restart.sh", "start", "configure", "0.0.9")
    assert calls == ["deb-systemd-invoke try-restart earshotd.service"]


def test_an_upgrade_with_an_invalid_configuration_keeps_the_running_process_and_says_what_is_wrong(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, is_active=True, is_valid=False)
    calls, errors = machine.run("restart.sh", "start", "configure", "0.0.9")
    assert calls == []
    assert "earshot.conf:3: wrong" in errors
    assert "The process of version 0.0.9 continues." in errors
    assert "systemctl restart earshotd" in errors


def test_an_upgrade_does_not_start_a_service_that_was_stopped(tmp_path: Path) -> None:
    machine = Machine(tmp_path, is_active=False, is_valid=True)
    assert machine.run("restart.sh", "start", "configure", "0.0.9")[0] == []


@pytest.mark.parametrize(("argument", "count"), [("remove", 1), ("upgrade", 0), ("deconfigure", 0)])
def test_only_a_removal_stops_the_service(tmp_path: Path, argument: str, count: int) -> None:
    machine = Machine(tmp_path, is_active=True, is_valid=True)
    assert len(machine.run("stop.sh", "", argument)[0]) == count


def test_every_package_with_state_purges_it() -> None:
    for unit in sorted((TOP / "systemd").glob("*.service")):
        for name in re.findall(r"^StateDirectory=(.*)$", unit.read_text(), re.MULTILINE):
            text = (DEBIAN / f"{name}.postrm").read_text()
            assert f"/var/lib/{name} " in text, f"{unit.name}: {name}"


def test_every_package_of_the_control_file_is_installed_by_the_rules() -> None:
    rules = (DEBIAN / "rules").read_text()
    services = re.search(r"^SERVICES := (.*)$", rules, re.MULTILINE)
    assert services
    makefile = re.search(r"^SERVICES := (.*)$", (TOP / "Makefile").read_text(), re.MULTILINE)
    assert makefile and makefile[1] == services[1]
    packages = set(re.findall(r"^Package: (.*)$", (DEBIAN / "control").read_text(), re.MULTILINE))
    assert {f"earshot-{name}" for name in services[1].split()} <= packages
