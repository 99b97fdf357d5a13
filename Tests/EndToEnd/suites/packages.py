"""The Debian packages, from the installation to the purge, with systemd as process 1 and apt without a network.

Each test installs what it needs, so each can run alone. `scripts/e2e` boots a guest of its own for them: the other suites use the staged
files of `make install`."""
from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.limits import limit
from harness.machine import BLUETOOTH, run, systemctl
from harness.packages import MAIN_SETTINGS, OFF, OWN_SETTINGS, STARTED, PackagesStage, main_process
from harness.runner import Suite
from harness.service import MANAGER, TRANSFER
from harness.stage import SETTINGS
from phones.ios import IOSWallet
from phones.tuvali import DIALECTS
from phones.wallet import Hook, Point, Wallet
from suites.faults import Interrupted
from suites.visits import KB, credential, visit

suite = Suite("packages")
#: Limit in seconds of a test that installs packages, some twice: one installation takes the emulated processor up to 300 s.
LONG = 1200
#: The unit's WatchdogSec= and RestartSec=, and time to start.
WATCHDOG = 30 + 2 + 20
UNIT = "earshotd.service"
ROOT = "/org/earshot"
WAITING = b'{"a": "credential that waits during the upgrade"}'


async def prepare(stage: PackagesStage) -> None:
    """Installs the current version, unless it is installed."""
    await stage.packages.have(stage.packages.current)


async def serve(stage: PackagesStage) -> None:
    """The phone transfers a credential, which a local program fetches and accepts."""
    await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"]), credential(10 * KB))


async def ask(*words: str) -> str:
    """Calls the service with dbus-send, as a shell script does; returns the reply."""
    return await run("dbus-send", "--system", "--print-reply", "--dest=org.earshot", ROOT, *words)


async def radio_state() -> str:
    return await ask("org.freedesktop.DBus.Properties.Get", f"string:{MANAGER}", "string:RadioState")


def programs() -> list[str]:
    """The processes that run a program of the packages."""
    found = []
    for link in Path("/proc").glob("[0-9]*/exe"):
        try:
            target = os.readlink(link)
        except OSError:
            continue  # a thread of the kernel, or a process that has just ended
        if target.startswith("/usr/bin/earshot"):
            found.append(target)
    return found


async def unit_states(units: tuple[str, ...], verb: str) -> list[str]:
    """What `systemctl is-enabled` or `is-active` prints for each unit."""
    return (await systemctl(verb, *units, check=False)).splitlines()


async def until_owned(stage: PackagesStage, process: int, timeout: float) -> int:
    """Waits until another process than this one has the name of the service; returns the new process."""

    async def test() -> int:
        if not await stage.bus.owned(stage.kiosk.name):
            return 0
        found = await main_process()
        return found if found != process else 0

    return await stage.bus.until(f"another process than {process} is the service", test, timeout, every=1)


async def leave_credential(stage: PackagesStage, text: bytes) -> None:
    """Transfers a credential that no program judges; the wallet vanishes, and the credential waits in the service."""
    wallet = IOSWallet(stage.phone, DIALECTS["0.5"])

    async def vanish(point: Point) -> None:
        if point is Point.DECISION:
            raise Interrupted

    try:
        await wallet.present(await stage.kiosk.invitation(), text, vanish)
    except Interrupted:
        pass
    await stage.kiosk.received.get()


async def waiting(stage: PackagesStage) -> dict[str, bytes]:
    """The credentials that wait for a program, by path."""
    objects = await stage.bus.objects(stage.kiosk.name, ROOT)
    paths = [path for path, found in objects.items() if found.get(TRANSFER, {}).get("State") == "received"]
    return {path: await stage.kiosk.credential(path) for path in paths}


async def judge_waiting(stage: PackagesStage) -> None:
    for path in await waiting(stage):
        await stage.kiosk.judge(path, False)


async def failure(wallet: Wallet, uri: str, at: Hook) -> Exception:
    """The transfer must fail; returns the error of the wallet."""
    try:
        await wallet.present(uri, credential(100 * KB), at)
    except AssertionError:
        raise
    except Exception as error:
        return error
    raise AssertionError("the transfer ended before the upgrade restarted the service")


def write_own_settings() -> None:
    """Settings of the administrator, in a file of its own and in the file of the package."""
    OWN_SETTINGS.parent.mkdir(parents=True, exist_ok=True)
    OWN_SETTINGS.write_text("[Verifier]\nName=Gate7\n")
    if "# Gate7" not in MAIN_SETTINGS.read_text():
        MAIN_SETTINGS.write_text(MAIN_SETTINGS.read_text() + "# Gate7\n")


def check_own_settings() -> None:
    assert OWN_SETTINGS.read_text() == "[Verifier]\nName=Gate7\n"
    assert MAIN_SETTINGS.read_text().endswith("# Gate7\n"), "the file of the package lost the change of the administrator"


@asynccontextmanager
async def invalid_settings() -> AsyncIterator[Path]:
    """A file with a value that the service does not take, for a while."""
    file = OWN_SETTINGS.with_name("zz-invalid.conf")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[Verifier]\nEnabled=perhaps\n")
    try:
        yield file
    finally:
        file.unlink(missing_ok=True)


@suite.test("After the installation earshotd runs, the kiosk waits for its start, and no service that uses the network runs", limit=LONG)
async def installation(stage: PackagesStage) -> None:
    await stage.set_radio()
    # Debian 12's guest has the root file system of the developer's machine.
    if stage.out.name.endswith("trixie"):
        tools = [tool for tool in ("cc", "make", "swift", "dpkg-buildpackage") if shutil.which(tool)]
        assert not tools, f"the machine has build tools: {tools}"
    await stage.packages.install(stage.packages.current)
    assert await unit_states(STARTED, "is-active") == ["active"] * len(STARTED)
    assert await unit_states(STARTED, "is-enabled") == ["enabled"] * len(STARTED)
    assert await unit_states(OFF, "is-active") == ["inactive"] * len(OFF)
    assert await unit_states(OFF, "is-enabled") == ["disabled"] * len(OFF)
    assert await stage.kiosk.restarts == "0", "the first start failed"
    user = Path(f"/proc/{await main_process()}").owner()
    assert user == "earshot", f"the service runs as {user}"
    assert "--noplugin=battery" in " ".join(await stage.machine.bluetoothd_command()), "bluetoothd asks phones to pair"
    await run("getent", "group", "earshot", "earshot-view")
    status = await run("earshot", "status")
    assert "earshotd" in status, status
    assert "Active: active (running)" in await systemctl("status", UNIT)
    found = await stage.kiosk.properties()
    assert found["State"] == "stopped" and not found["ConnectionUri"], found


@suite.test("A call by dbus-send starts a stopped earshotd, and does not start a disabled one", limit=LONG)
async def activation(stage: PackagesStage) -> None:
    await prepare(stage)
    await systemctl("stop", UNIT)
    assert "string" in await radio_state()
    assert await unit_states((UNIT,), "is-active") == ["active"]
    await systemctl("disable", "--now", UNIT)
    try:
        await radio_state()
    except RuntimeError:
        pass
    else:
        raise AssertionError("a call started a disabled service")
    finally:
        await systemctl("enable", UNIT)
    assert "string" in await radio_state()


@suite.test("A phone transfers a credential to the installed kiosk", limit=LONG)
async def transfer(stage: PackagesStage) -> None:
    await prepare(stage)
    await stage.set()
    await serve(stage)


@suite.test("A reload applies a setting without another process", limit=LONG)
async def reload(stage: PackagesStage) -> None:
    await prepare(stage)
    await stage.set()
    process = await main_process()
    await stage.kiosk.reload({**SETTINGS, "Log": {"Level": "info"}})

    async def is_applied() -> bool:
        said = await run("journalctl", "--unit", UNIT, f"_PID={process}", "--output", "cat", "--quiet", check=False)
        return "In force now: Log.Level" in said

    await stage.bus.until("the journal names the changed setting", is_applied, every=0.5)
    assert await main_process() == process
    await serve(stage)
    assert await main_process() == process


@suite.test("systemd restarts an earshotd that SIGSTOP has stopped, and the next wallet is served", limit=LONG)
async def watchdog(stage: PackagesStage) -> None:
    await prepare(stage)
    await stage.set()
    process = await main_process()
    await systemctl("kill", "--signal=STOP", UNIT)
    await until_owned(stage, process, WATCHDOG)
    assert int(await stage.kiosk.restarts) >= 1
    said = await run("journalctl", "--unit", UNIT, "--output", "cat", "--quiet", "--grep", "Watchdog timeout")
    assert said, "the journal has no watchdog timeout"
    await serve(stage)


@suite.test("An upgrade amid the chunks keeps settings and credentials, and the next wallet is served", limit=LONG)
async def upgrade(stage: PackagesStage) -> None:
    await stage.packages.have(stage.packages.previous)
    write_own_settings()
    stage.kiosk.settings = None
    await stage.set()
    await leave_credential(stage, WAITING)
    process = await main_process()
    wallet = IOSWallet(stage.phone, DIALECTS["0.5"])
    upgrades: list[asyncio.Task[str]] = []

    async def begin(point: Point) -> None:
        if point is Point.MID_CHUNKS:
            # The rest of the chunks takes longer than the upgrade.
            wallet.PACE = limit(3)
            upgrades.append(asyncio.create_task(stage.packages.install(stage.packages.current)))

    ended = await failure(wallet, await stage.kiosk.invitation(), begin)
    output = await upgrades[0]
    stage.measure(f"the wallet: {type(ended).__name__}")
    assert "was not restarted" not in output, output
    assert await until_owned(stage, process, 20) != process
    check_own_settings()
    await stage.phone.hang_up()
    assert list((await waiting(stage)).values()) == [WAITING], "the credential that waited was lost"
    await judge_waiting(stage)
    await serve(stage)


@suite.test("An upgrade with an invalid configuration says what is wrong, and the old process serves the next wallet", limit=LONG)
async def invalid(stage: PackagesStage) -> None:
    await stage.packages.have(stage.packages.previous)
    stage.kiosk.settings = None
    await stage.set()
    process = await main_process()
    async with invalid_settings() as file:
        output = await stage.packages.install(stage.packages.current)
        assert str(file) in output, output
        assert f"The process of version {stage.packages.previous[0].version} continues." in output, output
        assert await main_process() == process
        assert os.readlink(f"/proc/{process}/exe").endswith(" (deleted)"), "the process runs the new program"
        await serve(stage)
    await systemctl("restart", UNIT)
    assert await main_process() != process
    stage.kiosk.drop_received()
    await serve(stage)


@suite.test("A removal ends the service and keeps settings and credentials for the next installation", limit=LONG)
async def removal(stage: PackagesStage) -> None:
    await prepare(stage)
    write_own_settings()
    stage.kiosk.settings = None
    await stage.set()
    await leave_credential(stage, WAITING)
    process = await main_process()
    await stage.packages.remove()
    assert not Path(f"/proc/{process}").exists(), "the service runs without its package"
    assert not await stage.bus.owned(stage.kiosk.name)
    assert not Path("/usr/bin/earshotd").exists()
    check_own_settings()
    await stage.packages.install(stage.packages.current)
    check_own_settings()
    assert await unit_states(STARTED, "is-active") == ["active"] * len(STARTED)
    assert list((await waiting(stage)).values()) == [WAITING], "the credential that waited was lost"
    await judge_waiting(stage)


@suite.test("A purge leaves no file, unit, process or name on the bus, and bluetoothd has its own command again", limit=LONG)
async def purge(stage: PackagesStage) -> None:
    await prepare(stage)
    write_own_settings()
    await stage.set()
    # What an administrator may have added: a trusted issuer, and every service.
    Path("/etc/earshot/issuers.d/own.json").write_text("{}\n")
    for unit in OFF:
        await systemctl("enable", "--now", unit)
    left = await stage.packages.purge()
    stage.kiosk.settings = None
    assert not left, f"the purge left {sorted(left)}"
    # systemd forgets failed units only when it is asked to.
    await systemctl("reset-failed", check=False)
    units = await systemctl("list-units", "--all", "--plain", "--no-legend", "earshot*", check=False)
    assert not units, units
    assert not (found := programs()), found
    assert not await stage.bus.owned(stage.kiosk.name)
    command = await systemctl("show", "--property=ExecStart", BLUETOOTH)
    assert "noplugin" not in command, command
    assert not await stage.packages.installed()
