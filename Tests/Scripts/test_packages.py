"""Tests the texts that debian/rules adds to the scripts of the packages, with stand-ins for systemd's programs."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
DEBIAN = TOP / "debian"
UNITS = sorted(path for path in (TOP / "systemd").iterdir() if path.suffix in (".service", ".socket", ".timer"))


class Machine:
    """A folder with stand-ins for systemctl, deb-systemd-invoke and the daemon, which record their arguments."""

    def __init__(self, folder: Path, *, is_active: bool, is_valid: bool) -> None:
        self.folder = folder
        (folder / "systemd").mkdir()
        self._program("systemctl", f'case "$*" in *is-active*) exit {0 if is_active else 3} ;; esac')
        self._program("deb-systemd-invoke", "")
        self._program("busctl", "")
        self._program("earshotd", f"echo stdout; echo earshot.conf:3: wrong >&2; exit {0 if is_valid else 1}")

    def _program(self, name: str, body: str) -> None:
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>{self.folder}/calls\n{body}\n')
        path.chmod(0o755)

    def run(self, script: str, first: str, *arguments: str) -> tuple[list[str], str]:
        """Returns the calls of deb-systemd-invoke, and the text on standard error."""
        text = (DEBIAN / script).read_text().replace("/usr/bin/@UNIT@", f"{self.folder}/earshotd")
        text = text.replace("@UNIT@", "earshotd").replace("@FIRST@", first)
        text = text.replace("/run/systemd/system", f"{self.folder}/systemd").replace("/run/", f"{self.folder}/")
        result = subprocess.run(
            ["sh", "-eu", "-c", text, "script", *arguments],
            env={"PATH": f"{self.folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in self.calls() if line.startswith("deb-systemd-invoke")], result.stderr

    def calls(self) -> list[str]:
        """Returns the calls of all programs."""
        calls = self.folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


def test_the_installation_starts_the_service_that_is_meant_to_start(tmp_path: Path) -> None:
    machine = Machine(tmp_path, is_active=False, is_valid=True)
    assert machine.run("restart.sh", "start", "configure", "")[0] == ["deb-systemd-invoke start earshotd.service"]


@pytest.mark.parametrize("version", ["", "0.0.9"])
def test_the_bus_reads_its_policy_again_before_the_service_starts(tmp_path: Path, version: str) -> None:
    """When the files are unpacked, the users of the policy do not exist yet, so the bus ignores its rules."""
    machine = Machine(tmp_path, is_active=True, is_valid=True)
    machine.run("restart.sh", "start", "configure", version)
    calls = machine.calls()
    reloads = [number for number, line in enumerate(calls) if line.startswith("busctl ") and "ReloadConfig" in line]
    starts = [number for number, line in enumerate(calls) if line.startswith("deb-systemd-invoke ")]
    assert len(reloads) == len(starts) == 1
    assert reloads[0] < starts[0]


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


def test_an_installation_after_a_removal_starts_the_service(tmp_path: Path) -> None:
    """The scripts get the version of the removed package, as for an upgrade."""
    machine = Machine(tmp_path, is_active=False, is_valid=True)
    machine.run("mark.sh", "", "install", "0.0.9", "0.1.0")
    start = ["deb-systemd-invoke start earshotd.service"]
    assert machine.run("restart.sh", "start", "configure", "0.0.9")[0] == start
    # The next upgrade does not start it again.
    machine.run("mark.sh", "", "upgrade", "0.1.0", "0.1.1")
    assert machine.run("restart.sh", "start", "configure", "0.1.0")[0] == start


@pytest.mark.parametrize(("argument", "count"), [("remove", 1), ("upgrade", 0), ("deconfigure", 0)])
def test_only_a_removal_stops_the_service(tmp_path: Path, argument: str, count: int) -> None:
    machine = Machine(tmp_path, is_active=True, is_valid=True)
    assert len(machine.run("stop.sh", "", argument)[0]) == count


def test_the_removal_stops_every_unit() -> None:
    """The scripts of debhelper stop only units that the installation starts: here the socket of the checker."""
    rules = (DEBIAN / "rules").read_text()
    stopped = {"earshot-check.socket", *(DEBIAN / "earshot-check.prerm").read_text().split()}
    for name in ["earshotd", *re.findall(r"^UNIT_[a-z]+ := (.*)$", rules, re.MULTILINE)]:
        stopped |= {line.replace("@UNIT@", name) for line in (DEBIAN / "stop.sh").read_text().split()}
    assert {unit.name for unit in UNITS if "@" not in unit.name} <= stopped


def test_every_package_with_state_purges_it() -> None:
    for unit in sorted((TOP / "systemd").glob("*.service")):
        for name in re.findall(r"^StateDirectory=(.*)$", unit.read_text(), re.MULTILINE):
            text = (DEBIAN / f"{name}.postrm").read_text()
            assert f"/var/lib/{name} " in text, f"{unit.name}: {name}"


def setting(unit: Path, key: str) -> list[str]:
    """Returns the words of a setting of a unit, of all its lines."""
    return " ".join(re.findall(rf"^{key}=(.*)$", unit.read_text(), re.MULTILINE)).split()


def test_every_service_hides_the_private_state_of_the_others() -> None:
    services = [unit for unit in UNITS if unit.suffix == ".service"]
    private = {
        name
        for unit in services
        if setting(unit, "StateDirectoryMode") == ["0700"]
        for name in setting(unit, "StateDirectory")
    }
    assert private == {"earshot", "earshot-nostr", "earshot-presence", "earshot-social"}
    for unit in services:
        # Without the `-` systemd does not start a service on a machine that lacks one of the folders.
        hidden = {path for path in setting(unit, "InaccessiblePaths") if path.startswith("-/var/lib/earshot")}
        others = private - set(setting(unit, "StateDirectory"))
        assert hidden == {f"-/var/lib/{name}" for name in others}, unit.name


def test_every_package_of_the_control_file_is_installed_by_the_rules() -> None:
    rules = (DEBIAN / "rules").read_text()
    services = re.search(r"^SERVICES := (.*)$", rules, re.MULTILINE)
    assert services
    makefile = re.search(r"^SERVICES := (.*)$", (TOP / "Makefile").read_text(), re.MULTILINE)
    assert makefile and makefile[1] == services[1]
    packages = set(re.findall(r"^Package: (.*)$", (DEBIAN / "control").read_text(), re.MULTILINE))
    assert {f"earshot-{name}" for name in services[1].split()} <= packages


def packages() -> set[str]:
    return set(re.findall(r"^Package: (.*)$", (DEBIAN / "control").read_text(), re.MULTILINE))


def test_the_changelog_of_the_first_release_names_every_package() -> None:
    words = set(re.findall(r"[a-z0-9-]+", (DEBIAN / "changelog").read_text()))
    assert packages() <= words


def test_the_guide_for_operators_lists_every_package() -> None:
    assert packages() == set(
        re.findall(r"^\| `([a-z0-9-]+)` \| ", (TOP / "docs" / "operating").with_suffix(".md").read_text(), re.MULTILINE)
    )


def test_the_makefile_lists_every_package() -> None:
    text = (TOP / "Makefile").read_text()
    variable = re.search(r"^PACKAGES := (.*)$", text, re.MULTILINE)
    services = re.search(r"^SERVICES := (.*)$", text, re.MULTILINE)
    assert variable and services
    names = variable[1].replace("$(SERVICES:%=earshot-%)", " ".join(f"earshot-{name}" for name in services[1].split()))
    assert set(names.split()) == packages()


@pytest.mark.parametrize("unit", UNITS, ids=[unit.name for unit in UNITS])
def test_every_unit_names_a_manual_page_that_exists(unit: Path) -> None:
    found = re.search(r"^Documentation=man:([a-z.-]+)\((\d)\)$", unit.read_text(), re.MULTILINE)
    assert found, f"{unit.name} has no line Documentation="
    assert (TOP / "docs" / "man" / "text" / f"{found[1]}.{found[2]}").exists()


#: Writes the files that the options of a program ask for.
STAND_IN = """#!/bin/sh
case $1 in
--write-interfaces) : >"$2/org.earshot.Test1.xml" ;;
--write-catalog) : >"$2" ;;
esac
"""


def test_the_uninstallation_removes_every_file_that_the_installation_of_a_daemon_adds(tmp_path: Path) -> None:
    built = tmp_path / "built"
    built.mkdir()
    makefile = (TOP / "Makefile").read_text()
    services = re.findall(r"^SERVICE_([a-z]+) := (\S+)", makefile, re.MULTILINE)
    for program in ["earshotd", "earshot", "earshot-air", *(name for _, name in services)]:
        path = built / program
        path.write_text(STAND_IN)
        path.chmod(0o755)
    root = tmp_path / "root"
    goals = ["install-service", "install-python", *(f"install-{name}" for name, _ in services)]
    make = ["make", "--no-print-directory", f"BUILT={built}", f"DESTDIR={root}"]
    subprocess.run([*make, *goals], cwd=TOP, check=True, capture_output=True)
    installed = [path for path in root.rglob("*") if path.is_file()]
    assert len(installed) > 40
    subprocess.run([*make, "uninstall"], cwd=TOP, check=True, capture_output=True)
    left = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert left == {f"etc/earshot/{name}" for name in ("earshot.conf", "presence.conf", "social.conf", "uplink.conf")}
