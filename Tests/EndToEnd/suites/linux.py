"""A wallet on Linux and a verifier on Linux: the same program twice, on two adapters of one bluetoothd."""
from __future__ import annotations

from pathlib import Path

from harness.bus import BUS
from harness.machine import KIOSK, SECOND, systemctl
from harness.runner import Suite
from harness.service import TRANSFER, WALLET, WALLET_PATH, Service, Settings
from harness.stage import SETTINGS, Stage, settings
from suites.visits import KB, clerk, credential

suite = Suite("linux", tenant=True)
NAME = "org.earshot.second"
UNIT = "earshotd-second.service"
CONFIGURATION = Path("/etc/earshot-second.conf")
WALLET_SETTINGS: Settings = {"Radio": {"Adapter": f"hci{SECOND}"}, "Log": {"Level": "debug"}}


async def second_service(stage: Stage) -> Service:
    """Installs and starts the service once more, with a name, an adapter and a state directory of its own."""
    unit = Path("/usr/lib/systemd/system/earshotd.service").read_text()
    for old, new in (
        ("BusName=org.earshot\n", f"BusName={NAME}\n"),
        ("ExecStart=/usr/bin/earshotd\n", f"ExecStart=/usr/bin/earshotd --bus-name {NAME} --config {CONFIGURATION}\n"),
        ("StateDirectory=earshot\n", "StateDirectory=earshot-second\n"),
        ("Alias=dbus-org.earshot.service\n", ""),
    ):
        assert old in unit, f"the unit has no line {old!r}"
        unit = unit.replace(old, new)
    Path("/run/systemd/system", UNIT).write_text(unit)
    policy = Path("/usr/share/dbus-1/system.d/org.earshot.conf").read_text()
    Path("/etc/dbus-1/system.d/org.earshot.second.conf").write_text(policy.replace('"org.earshot"', f'"{NAME}"'))
    await stage.bus.call(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig")
    await systemctl("daemon-reload")
    service = Service(stage.bus, NAME, UNIT, CONFIGURATION)
    await stage.machine.until_powered(SECOND)
    await service.start(WALLET_SETTINGS)
    return service


async def send(stage: Stage, wanted: Settings, size: int, accept: bool) -> None:
    uri = await stage.set(wanted)
    text = credential(size)
    second = await second_service(stage)
    try:
        await second.until_radio("ready")
        path = await second.call(WALLET_PATH, WALLET, "Send", "ss", uri, text.decode())
        judged = await clerk(stage, text, accept)
        end = "accepted" if accept else "rejected"
        sent = await second.until("the wallet knows", TRANSFER, path, State=end, Live=False)
        assert sent["ErrorCode"] == "" == judged["ErrorCode"], (sent, judged)
        stage.measure(f"MTU {sent['Mtu']}")
    finally:
        await second.stop()
    assert await stage.kiosk.invitation() != uri


@suite.test(f"A wallet on Linux (hci{SECOND}) brings 100 KB to a verifier on Linux (hci{KIOSK}) and is accepted")
async def accepted(stage: Stage) -> None:
    await send(stage, SETTINGS, 100 * KB, True)


@suite.test("A wallet on Linux brings 10 KB to a verifier on Linux that speaks 0.4 alone, and is rejected")
async def rejected(stage: Stage) -> None:
    await send(stage, settings(Dialects="0.4"), 10 * KB, False)
