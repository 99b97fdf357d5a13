"""The radio packets of a credential's transfer, compared with the minimum that BlueZ permits, measured at the same time on one
machine.

The test judges the number of packets. Speed and processor time are shown and not judged: they belong to the emulated processor, and to
the other load of the machine."""
from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from harness.machine import BLUETOOTH, KIOSK, systemctl
from harness.runner import Suite
from harness.service import VERIFIER, unit_cpu
from harness.stage import Stage
from phones.ios import IOSWallet
from phones.phone import Sighting
from phones.tuvali import DIALECTS, chunks, service_list, short
from suites.visits import KB, credential, visit

suite = Suite("goodput", measures=True)
BARE_UNIT = "bare-gatt.service"
BARE_SERVICE, BARE_CHARACTERISTIC = 0xFFF0, short(0xFFF1)
MTU = 517
#: Number of runs of each kind: the best is shown, because other load only slows runs down.
RUNS = 2
#: Minimum ratio of the packets of bare writes to those of the credential.
LEAST = 0.9
#: Parameters of a phone with Android's CONNECTION_PRIORITY_HIGH: one value for each connection event.
INTERVAL = 0.015


class BriskWallet(IOSWallet):
    """Writes a command every connection event, and one request at the end."""

    PACE = INTERVAL


class HastyWallet(IOSWallet):
    """Writes commands as fast as the controller accepts them, which measures the emulated processor."""

    PACE = 0


@dataclass
class Bare:
    """A run of bare writes."""

    packets: int
    #: Bytes of the frame per second, up to the answer to a request.
    rate: float


async def bare_run(stage: Stage, frame: bytes, pace: float) -> Bare:
    """Writes the chunks of a frame to the minimal server, and one request at the end."""

    def is_bare(seen: Sighting) -> object | None:
        return seen.address if BARE_SERVICE in service_list(seen.data) else None

    link = await stage.phone.connect(await stage.phone.look(is_bare), MTU)
    try:
        await link.exchange_mtu(MTU)
        await link.discover(BARE_SERVICE)
        parts = chunks(frame, min(link.mtu, 512) - 3)
        begin, packets = time.monotonic(), stage.phone.data_packets
        for part in parts:
            await link.command(BARE_CHARACTERISTIC, part)
            await asyncio.sleep(pace)
        await link.request(BARE_CHARACTERISTIC, b"\x01")
        return Bare(stage.phone.data_packets - packets, len(frame) / (time.monotonic() - begin))
    finally:
        await link.disconnect()


async def bare_runs(stage: Stage, size: int, pace: float) -> tuple[list[Bare], float]:
    """The runs, and seconds of processor time per megabyte."""
    await stage.kiosk.stop()
    await systemctl("reset-failed", BARE_UNIT, check=False)
    await stage.machine.run_as_unit(BARE_UNIT, str(stage.native / "bare_gatt"), f"hci{KIOSK}")
    try:
        frame = credential(size)
        runs = [await bare_run(stage, frame, pace) for _ in range(RUNS)]
        return runs, unit_cpu(BARE_UNIT) / (RUNS * size / 1e6)
    finally:
        await systemctl("stop", BARE_UNIT)


async def beside_bare(stage: Stage, wallet: type[IOSWallet]) -> float:
    """Credentials of 100 KB, and bare writes of the same size and pace; the ratio of the packets of both."""
    await stage.set()
    visits = []
    changes_of_state = f"member='PropertiesChanged',arg0='{VERIFIER}'"
    async with stage.bus.hearing_only(stage.kiosk.name, "member='CredentialReceived'", changes_of_state):
        for _ in range(RUNS):
            phone = wallet(stage.phone, DIALECTS["0.5"], mtu=MTU)
            visits.append((await visit(stage, phone, credential(100 * KB)))[0])
    bare, _ = await bare_runs(stage, visits[0].frame, wallet.PACE)
    packets, least = min(result.packets for result in visits), min(run.packets for run in bare)
    kiosk = max(result.frame / result.written for result in visits)
    whole = max(result.frame / result.seconds for result in visits)
    stage.measure(
        f"{packets} packets, bare {least}; {kiosk / 1000:.0f} kB/s, bare {max(run.rate for run in bare) / 1000:.0f} kB/s, "
        f"up to SUCCESS {whole / 1000:.0f} kB/s"
    )
    return least / packets


@suite.test("100 KB take hardly more packets than a bare GATT write of them", limit=240)
async def goodput(stage: Stage) -> None:
    ratio = await beside_bare(stage, BriskWallet)
    assert ratio >= LEAST, f"a bare write takes {ratio:.2f} of the packets"


@suite.test("The same as fast as the machine can", limit=180)
async def flat_out(stage: Stage) -> None:
    ratio = await beside_bare(stage, HastyWallet)
    assert ratio >= LEAST, f"a bare write takes {ratio:.2f} of the packets"


@suite.test("What a megabyte costs in processor time", limit=120)
async def cost(stage: Stage) -> None:
    await stage.set()
    before = stage.kiosk.cpu(), unit_cpu(BLUETOOTH)
    result, _ = await visit(stage, HastyWallet(stage.phone, DIALECTS["0.5"], mtu=MTU), credential(717 * KB))
    after = stage.kiosk.cpu(), unit_cpu(BLUETOOTH)
    megabytes = result.frame / 1e6
    own, theirs = ((b - a) / megabytes for a, b in zip(before, after))
    _, bare = await bare_runs(stage, result.frame // RUNS, HastyWallet.PACE)
    stage.measure(f"earshotd {own:.2f} s/MB, bluetoothd {theirs:.2f} s/MB, a bare server {bare:.2f} s/MB")
