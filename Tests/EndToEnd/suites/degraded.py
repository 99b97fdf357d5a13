"""Missing resources: the service reports them on the bus, does not spin, and continues when they appear."""
from __future__ import annotations

import asyncio

from harness.limits import limit
from harness.machine import KIOSK, PHONE, systemctl
from harness.runner import Suite
from harness.service import VERIFIER, VERIFIER_PATH
from harness.stage import SETTINGS, Stage, settings
from phones.ios import IOSWallet
from phones.tuvali import DIALECTS
from suites.visits import KB, credential, visit

suite = Suite("degraded")
#: Seconds of observation, number of samples, and permitted wake-ups.
WATCHED = 3.0
LOOKS = 30
WAKEUPS = 15
#: Number of observations: the effects of a start or a lost adapter may still be going on during the first.
WINDOWS = 3


async def is_calm(stage: Stage) -> None:
    """Checks that the service waits: it is woken hardly ever, and is asleep in nearly every sample. Neither depends on the speed of
    the machine, as the processor time does, which is only shown."""
    threads = await stage.kiosk.threads()
    for _ in range(WINDOWS):
        cpu, before, asleep = stage.kiosk.cpu(), threads.wakeups, 0
        for _ in range(LOOKS):
            await asyncio.sleep(WATCHED / LOOKS)  # no event to wait for: nothing is expected to happen
            asleep += threads.are_asleep
        cpu, woken = stage.kiosk.cpu() - cpu, (threads.wakeups - before).total()
        if woken <= WAKEUPS and asleep > LOOKS / 2:
            break
    stage.measure(f"{woken} wake-ups and {cpu * 1000:.0f} ms CPU in {WATCHED:.0f} s")
    assert woken <= WAKEUPS, f"woken {woken} times in {WATCHED} s of waiting"
    assert asleep > LOOKS / 2, f"asleep in {asleep} of {LOOKS} looks"
    assert await stage.kiosk.restarts == "0", "it was started again"


async def serves(stage: Stage) -> None:
    await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"]), credential(KB))


def capability(only: str) -> str:
    """A change of the unit by which the service has a single capability."""
    lines = "".join(f"{key}=\n{key}={only}\n" for key in ("CapabilityBoundingSet", "AmbientCapabilities"))
    return f"[Service]\n{lines}"


@suite.test("Idle, the kiosk uses next to nothing of the processor")
async def idle(stage: Stage) -> None:
    await stage.set()
    await stage.kiosk.until_radio("ready")
    await is_calm(stage)
    stage.measure(f"{stage.kiosk.memory() / 1e6:.1f} MB")


@suite.test("Without CAP_NET_ADMIN it does what BlueZ alone can, and says what is missing")
async def without_net_admin(stage: Stage) -> None:
    await stage.set()
    await stage.kiosk.override(capability("CAP_NET_RAW"))
    try:
        await stage.kiosk.start(SETTINGS)
        if stage.machine.has_scan_responses:
            await stage.kiosk.until_radio("ready")
            await serves(stage)
        else:
            found = await stage.kiosk.until_radio("degraded")
            assert "CAP_NET_ADMIN" in found["RadioReason"], found["RadioReason"]
        await is_calm(stage)
    finally:
        await stage.kiosk.restore()
    await stage.set()
    await stage.kiosk.until_radio("ready")


@suite.test("Without CAP_NET_RAW it serves wallets that subscribe, and says what is missing")
async def without_net_raw(stage: Stage) -> None:
    await stage.set()
    await stage.kiosk.override(capability("CAP_NET_ADMIN"))
    try:
        await stage.kiosk.start(SETTINGS)
        found = await stage.kiosk.until_radio("degraded")
        assert "CAP_NET_RAW" in found["RadioReason"], found["RadioReason"]
        await serves(stage)
        await is_calm(stage)
    finally:
        await stage.kiosk.restore()
    await stage.set()
    await stage.kiosk.until_radio("ready")


@suite.test("Started without bluetoothd it waits, and serves when bluetoothd comes")
async def without_bluetoothd(stage: Stage) -> None:
    await stage.set()
    await stage.kiosk.stop()
    await stage.machine.stop_bluetoothd()
    await stage.kiosk.start(SETTINGS)
    found = await stage.kiosk.until_radio("waiting")
    assert "bluetoothd is not running" in found["RadioReason"], found["RadioReason"]
    await is_calm(stage)
    await stage.machine.start_bluetoothd()
    await stage.kiosk.until_radio("ready")
    await serves(stage)


async def _start_without_adapter(stage: Stage, adapter: str) -> None:
    await stage.set()
    await stage.kiosk.stop()
    await stage.machine.remove_controllers()
    await stage.phone.switch_off()
    await stage.machine.until_powered(KIOSK, None)
    await stage.kiosk.start({**SETTINGS, "Radio": {"Adapter": adapter}})


@suite.test("Started without an adapter it waits, and serves when one comes ten seconds later")
async def adapter_comes_late(stage: Stage) -> None:
    await _start_without_adapter(stage, "")
    found = await stage.kiosk.until_radio("waiting")
    assert "no Bluetooth adapter" in found["RadioReason"], found["RadioReason"]
    assert found["Adapters"] == [], found
    await is_calm(stage)
    await asyncio.sleep(10 - WATCHED)  # the duration is what is tested
    await stage.machine.start_controllers()
    await stage.set({**SETTINGS, "Radio": {"Adapter": ""}})
    found = await stage.kiosk.until_radio("ready")
    # Three adapters appear at once, and the first one that is powered on is used; the kiosk must not use the phone's.
    assert found["Adapters"][0] != f"hci{PHONE}", found
    await serves(stage)


@suite.test("With an adapter that does not exist it waits, and names those that do")
async def adapter_missing(stage: Stage) -> None:
    await stage.set()
    await stage.kiosk.start({**SETTINGS, "Radio": {"Adapter": "hci9"}})
    found = await stage.kiosk.until_radio("waiting")
    assert "hci9" in found["RadioReason"] and f"hci{KIOSK}" in found["RadioReason"], found["RadioReason"]
    await is_calm(stage)


@suite.test("Switched off, the adapter is waited for, and the kiosk says so")
async def switched_off(stage: Stage) -> None:
    await stage.set()
    await stage.machine.power(KIOSK, False)
    found = await stage.kiosk.until_radio("waiting")
    assert "switched off" in found["RadioReason"], found["RadioReason"]
    await is_calm(stage)
    await stage.machine.power(KIOSK, True)
    await stage.kiosk.until_radio("ready")
    await serves(stage)


@suite.test("A wallet that stays after the verdict is asked to leave")
async def asked_to_leave(stage: Stage) -> None:
    uri = await stage.set(settings(DisconnectTimeout="1s"))
    wallet = IOSWallet(stage.phone, DIALECTS["0.5"])
    address, key = await wallet.find(uri)
    link = wallet.link = await stage.phone.connect(address)
    try:
        bringing = asyncio.ensure_future(wallet.bring(link, key, credential(KB)))
        await stage.kiosk.judge(await stage.kiosk.received.get(), True)
        await bringing
        async with asyncio.timeout(limit(10)):
            await wallet.dismissed.wait()
    finally:
        await link.disconnect()


@suite.test("Stopped by systemd it ends at once, and its state directory is its own")
async def stopped(stage: Stage) -> None:
    await stage.set()
    await systemctl("stop", stage.kiosk.unit)
    result = await systemctl("show", "--property=Result", "--value", stage.kiosk.unit)
    assert result == "success", result
    await stage.kiosk.start(SETTINGS)
    found = await stage.kiosk.properties(VERIFIER, VERIFIER_PATH)
    assert found["Storage"] == "", found["Storage"]
