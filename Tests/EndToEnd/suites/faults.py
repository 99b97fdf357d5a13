"""Faults during a transfer: afterwards the next wallet is served, without intervention."""
from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from harness.limits import limit
from harness.machine import KIOSK, PHONE
from harness.runner import Suite
from harness.service import VERIFIER, VERIFIER_PATH
from harness.stage import Stage
from phones.ios import IOSWallet
from phones.phone import POWER_OFF
from phones.tuvali import DIALECTS
from phones.wallet import Point, Wallet
from suites.visits import KB, credential, visit

suite = Suite("faults")
#: A limit from the return of the radio to the next wallet's verdict.
PROMISE = 10


class Interrupted(Exception):
    """The transfer was interrupted here."""


Fault = Callable[[Stage, Wallet], Awaitable[None]]


async def bluetoothd_killed(stage: Stage, _: Wallet) -> None:
    await stage.machine.kill_bluetoothd()
    await stage.machine.start_bluetoothd()


async def adapter_switched(stage: Stage, _: Wallet) -> None:
    await stage.machine.power(KIOSK, False)
    await stage.machine.power(KIOSK, True)


async def controllers_replaced(stage: Stage, _: Wallet) -> None:
    """Replaces all controllers, including the phone's, because they are one program."""
    await stage.machine.remove_controllers()
    await stage.phone.switch_off()
    await stage.machine.start_controllers()


async def wallet_vanishes(_: Stage, wallet: Wallet) -> None:
    if wallet.link is not None:
        await wallet.link.disconnect(POWER_OFF)


FAULTS: list[tuple[str, Fault]] = [
    ("bluetoothd is killed", bluetoothd_killed),
    ("the adapter is switched off and on", adapter_switched),
    ("the controller is taken out and put back", controllers_replaced),
    ("the wallet vanishes", wallet_vanishes),
]


async def interrupt(stage: Stage, point: Point, fault: Fault) -> None:
    """A transfer that the fault interrupts."""
    wallet = IOSWallet(stage.phone, DIALECTS["0.5"])

    async def at(here: Point) -> None:
        if here is point:
            await fault(stage, wallet)
            raise Interrupted

    try:
        await wallet.present(await stage.kiosk.invitation(), credential(10 * KB), at)
    except Interrupted:
        return
    raise AssertionError(f"the visit never came to the point {point.value}")


async def forget_credentials(stage: Stage) -> None:
    """Judges the credentials of the interrupted wallet, which frees capacity."""
    while not stage.kiosk.received.empty():
        await stage.kiosk.judge(stage.kiosk.received.get_nowait(), False)


def _add(what: str, fault: Fault, point: Point) -> None:
    @suite.test(f"The next wallet is served when {what} {point.value}")
    async def test(stage: Stage) -> None:
        await stage.set()
        async with asyncio.timeout(limit(20)):
            await interrupt(stage, point, fault)
        await stage.machine.until_powered(KIOSK)
        back = time.monotonic()
        async with asyncio.timeout(limit(PROMISE)):
            if not stage.phone.is_on:
                await stage.machine.free_adapter(PHONE)
                await stage.phone.switch_on()
            await forget_credentials(stage)
            await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"]), credential(KB))
        stage.measure(f"{time.monotonic() - back:.1f} s")


def _add_dead(who: str, drop_in: str) -> None:
    @suite.test(f"bluetoothd dies, nobody starts it, and {who} does: the next wallet is served", limit=120)
    async def test(stage: Stage) -> None:
        await stage.set()
        async with stage.machine.bluetooth_unit(drop_in):
            await stage.machine.kill_bluetoothd()
            # Meanwhile no invitation is shown.
            await stage.kiosk.until("there is no QR code", VERIFIER, VERIFIER_PATH, ConnectionUri="")
            dead = time.monotonic()
            await stage.machine.until_powered(KIOSK, timeout=40)
            await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"]), credential(KB))
            stage.measure(f"{time.monotonic() - dead:.1f} s")


_add_dead("systemd", "[Service]\nRestart=on-failure\nRestartSec=2\n")
_add_dead("the service", "[Service]\nRestart=no\n")


for _what, _fault in FAULTS:
    for _point in Point:
        _add(_what, _fault, _point)
