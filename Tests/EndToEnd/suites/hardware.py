"""Faults that an operator has to repair: an adapter that is blocked or off, and a bluetoothd that does not answer. The kiosk reports each
fault, and continues by itself after the repair."""
from __future__ import annotations

import asyncio
import time

from harness.limits import limit
from harness.machine import KIOSK
from harness.radio import address
from harness.runner import Suite
from harness.service import VERIFIER, VERIFIER_PATH
from harness.stage import Stage
from phones.android import AndroidWallet
from phones.ios import IOSWallet
from phones.tuvali import DIALECTS
from phones.wallet import Point, Wallet
from suites.degraded import is_calm, serves
from suites.visits import KB, credential, visit

suite = Suite("hardware")
#: Seconds for which bluetoothd is stopped while wallets are connected.
STILL = 30
#: Words of the journal line: while it lasts, or at its end if it was short.
WORDS = ("bluetoothd is running and does not answer", "(bluetoothd did not answer)")


def switch_on() -> str:
    """Returns the advice that switches on the kiosk's adapter, one of several."""
    return f"in bluetoothctl, select {address(KIOSK)}, then power on"


@suite.test("An adapter that rfkill blocks is reported with the command that unblocks it, and the kiosk serves when it is unblocked", limit=90)
async def blocked(stage: Stage) -> None:
    await stage.set()
    stage.machine.block(KIOSK, True)
    try:
        found = await stage.kiosk.until_radio("waiting")
        expected = f"The adapter hci{KIOSK} is blocked by rfkill: rfkill unblock bluetooth. If it stays off: {switch_on()}."
        assert found["RadioReason"] == expected, found["RadioReason"]
        await stage.kiosk.until("there is no QR code", VERIFIER, VERIFIER_PATH, ConnectionUri="")
        await is_calm(stage)
    finally:
        stage.machine.block(KIOSK, False)
    await stage.kiosk.until_radio("ready")
    await serves(stage)


@suite.test("The advice for an adapter that is off, typed into bluetoothctl, switches on that adapter and no other", limit=90)
async def switched_off(stage: Stage) -> None:
    await stage.set()
    machine = stage.machine
    before = await powered_adapters(stage)
    await machine.power(KIOSK, False)
    found = await stage.kiosk.until_radio("waiting")
    assert found["RadioReason"] == f"The adapter hci{KIOSK} is switched off: {switch_on()}.", found["RadioReason"]
    process = await asyncio.create_subprocess_exec(
        "bluetoothctl", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        assert process.stdin is not None
        process.stdin.write(f"select {address(KIOSK)}\npower on\n".encode())
        await process.stdin.drain()
        await machine.until_powered(KIOSK)
        process.stdin.write(b"quit\n")
        async with asyncio.timeout(limit(10)):
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    await stage.kiosk.until_radio("ready")
    assert await powered_adapters(stage) == before
    await serves(stage)


async def powered_adapters(stage: Stage) -> list[int]:
    return [number for number in range(8) if await stage.machine.powered(number)]


def _add_still(make: type[Wallet], point: Point) -> None:
    @suite.test(f"While bluetoothd is stopped the code is hidden and one journal line says why; the transfer of an {make.kind} phone, {point.value}, "
                "continues afterwards", limit=150)
    async def test(stage: Stage) -> None:
        await stage.set()
        await stage.kiosk.until_radio("ready")
        since = time.time()
        seen: list[float] = []

        async def at(here: Point) -> None:
            if here is point:
                code = await stage.kiosk.invitation_beside()
                async with stage.machine.standing_still():
                    begin = time.monotonic()
                    found = await stage.kiosk.until_radio("waiting", 30)
                    assert "bluetoothd is running and does not answer" in found["RadioReason"], found["RadioReason"]
                    await stage.kiosk.until("there is no QR code", VERIFIER, VERIFIER_PATH, ConnectionUri="")
                    seen.append(time.monotonic() - begin)
                    await is_calm(stage)
                    await asyncio.sleep(max(0, STILL - (time.monotonic() - begin)))  # this duration is what the test is about
                await stage.kiosk.until_radio("ready")
                assert await stage.kiosk.invitation_beside() == code, "the code has changed"

        await visit(stage, make(stage.phone, DIALECTS["0.5"]), credential(10 * KB), at=at)
        lines = [line for line in (await stage.kiosk.journal(since)).splitlines() if any(words in line for words in WORDS)]
        assert len(lines) == 1, lines
        stage.measure(f"said after {seen[0]:.1f} s")


_add_still(IOSWallet, Point.IDENTIFIED)
_add_still(AndroidWallet, Point.MID_CHUNKS)


@suite.test("A bluetoothd that is stopped while no wallet is connected is noticed, and the next wallet is served when it continues", limit=120)
async def still_alone(stage: Stage) -> None:
    code = await stage.set()
    async with stage.machine.standing_still():
        found = await stage.kiosk.until_radio("waiting", 30)
        assert "does not answer" in found["RadioReason"], found["RadioReason"]
        assert (await stage.kiosk.properties())["ConnectionUri"] == ""
    await stage.kiosk.until_radio("ready")
    assert await stage.kiosk.invitation() == code
    await serves(stage)
