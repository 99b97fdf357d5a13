"""How fast a credential arrives, beside the fastest that BlueZ would have it, on the same machine in the same minute."""
from __future__ import annotations

import asyncio
import time

from harness.machine import BLUETOOTH, KIOSK, systemctl
from harness.runner import Suite
from harness.service import VERIFIER, unit_cpu
from harness.stage import Stage
from phones.ios import IOSWallet
from phones.phone import Sighting
from phones.tuvali import DIALECTS, chunks, service_list, short
from suites.visits import KB, credential, visit

suite = Suite()
BARE_UNIT = "bare-gatt.service"
BARE_SERVICE, BARE_CHARACTERISTIC = 0xFFF0, short(0xFFF1)
MTU = 517
#: The best run of each counts, for other work on the host can only slow one down. The two take turns, so many runs at a
#: time; on a busy host more turns are needed until each has had a quiet moment.
RUNS = 2
TURNS = range(1, 5)
LEAST = 0.9
#: Of a phone that is in a hurry, Android's CONNECTION_PRIORITY_HIGH: one value for each connection event.
INTERVAL = 0.015


class BriskWallet(IOSWallet):
    """Writes a command every connection event, and one request at the end."""

    PACE = INTERVAL


class HastyWallet(IOSWallet):
    """Writes commands as fast as the controller takes them: what is measured is the emulated processor."""

    PACE = 0


async def bare_run(stage: Stage, frame: bytes, pace: float) -> float:
    """Writes the chunks of a frame to the minimal server; bytes of the frame a second, up to the answer to a request."""

    def is_bare(seen: Sighting) -> object | None:
        return seen.address if BARE_SERVICE in service_list(seen.data) else None

    link = await stage.phone.connect(await stage.phone.look(is_bare), MTU)
    try:
        await link.exchange_mtu(MTU)
        await link.discover(BARE_SERVICE)
        parts = chunks(frame, min(link.mtu, 512) - 3)
        begin = time.monotonic()
        for part in parts:
            await link.command(BARE_CHARACTERISTIC, part)
            await asyncio.sleep(pace)
        await link.request(BARE_CHARACTERISTIC, b"\x01")
        return len(frame) / (time.monotonic() - begin)
    finally:
        await link.disconnect()


async def bare_best(stage: Stage, size: int, pace: float) -> tuple[float, float]:
    """Bytes a second, and seconds of processor time a megabyte."""
    await stage.kiosk.stop()
    await systemctl("reset-failed", BARE_UNIT, check=False)
    await stage.machine.run_as_unit(BARE_UNIT, str(stage.native / "bare_gatt"), f"hci{KIOSK}")
    try:
        frame = credential(size)
        speeds = [await bare_run(stage, frame, pace) for _ in range(RUNS)]
        return max(speeds), unit_cpu(BARE_UNIT) / (RUNS * size / 1e6)
    finally:
        await systemctl("stop", BARE_UNIT)


async def beside_bare(stage: Stage, wallet: type[IOSWallet], turns: range) -> float:
    """Credentials of 100 KB and bare writes of the same size and pace in turns; the ratio of the best of both."""
    kiosk: list[float] = []
    whole: list[float] = []
    bare: list[float] = []
    ratio = 0.0
    changes_of_state = f"member='PropertiesChanged',arg0='{VERIFIER}'"
    for turn in range(1, turns.stop):
        await stage.set()
        frame = 0
        async with stage.bus.hearing_only(stage.kiosk.name, "member='CredentialReceived'", changes_of_state):
            for _ in range(RUNS):
                phone = wallet(stage.phone, DIALECTS["0.5"], mtu=MTU)
                result, _transfer = await visit(stage, phone, credential(100 * KB))
                frame = result.frame
                kiosk.append(frame / result.written)
                whole.append(frame / result.seconds)
        bare.append((await bare_best(stage, frame, wallet.PACE))[0])
        ratio = max(kiosk) / max(bare)
        if turn in turns and ratio >= LEAST:
            break
    stage.measure(
        f"{max(kiosk) / 1000:.0f} kB/s, bare {max(bare) / 1000:.0f} kB/s, ratio {ratio:.2f}, "
        f"up to SUCCESS {max(whole) / 1000:.0f} kB/s"
    )
    return ratio


@suite.test("100 KB arrive at nine tenths of the speed of a bare GATT write, or more", limit=240)
async def goodput(stage: Stage) -> None:
    ratio = await beside_bare(stage, BriskWallet, TURNS)
    assert ratio >= LEAST, f"{ratio:.2f} of a bare write"


@suite.test("The same as fast as the machine can, which is told and not judged", limit=180)
async def flat_out(stage: Stage) -> None:
    await beside_bare(stage, HastyWallet, range(2, 3))


@suite.test("What a megabyte costs in processor time", limit=120)
async def cost(stage: Stage) -> None:
    await stage.set()
    before = stage.kiosk.cpu(), unit_cpu(BLUETOOTH)
    result, _ = await visit(stage, HastyWallet(stage.phone, DIALECTS["0.5"], mtu=MTU), credential(717 * KB))
    after = stage.kiosk.cpu(), unit_cpu(BLUETOOTH)
    megabytes = result.frame / 1e6
    own, theirs = ((b - a) / megabytes for a, b in zip(before, after))
    _, bare = await bare_best(stage, result.frame // RUNS, HastyWallet.PACE)
    stage.measure(f"earshotd {own:.2f} s/MB, bluetoothd {theirs:.2f} s/MB, a bare server {bare:.2f} s/MB")
