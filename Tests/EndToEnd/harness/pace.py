"""How slow this guest is: a small piece of work that is always the same, beside what it takes on the reference."""
from __future__ import annotations

import asyncio
import time
import zlib
from collections import deque
from pathlib import Path

from harness.bus import BUS, Bus
from harness.limits import stretch

#: Seconds of `work` in a guest on an otherwise idle machine of two cores, emulated by QEMU's TCG.
REFERENCE = 1.2
#: So often it is measured at first, and so many runs count: other work on the machine comes and goes.
RUNS = 3
#: Here `scripts/bluez-vm` reads the factor by which it stretches the guest's own time-out.
SLOWNESS = Path("/run/bluez-vm/slowness")

LOOPS = 100_000
ROUND_TRIPS = 150


async def work(bus: Bus) -> None:
    """What an interpreter does, and what goes over the bus and back."""
    value = 0
    for number in range(LOOPS):
        value = zlib.crc32(number.to_bytes(4, "big"), value) ^ number
    for _ in range(ROUND_TRIPS):
        await bus.call(BUS, "/org/freedesktop/DBus", BUS, "GetId")


_taken: deque[float] = deque(maxlen=RUNS)


async def measure(bus: Bus) -> None:
    """Measures how slow the guest is, and stretches all limits by it, the guest's own time-out among them."""
    for _ in range(RUNS):
        await _measure_once(bus)
    factor = await _stretch()
    runs = ", ".join(f"{seconds:.2f}" for seconds in _taken)
    print(f"The fixed piece of work takes {runs} s here, {REFERENCE} s on the reference: limits times {factor:.2f}", flush=True)


async def measure_again(bus: Bus) -> None:
    """The guest may have become slower, or faster, since it was measured last, by what it or the machine does."""
    await _measure_once(bus)
    await _stretch()


async def _measure_once(bus: Bus) -> None:
    begin = time.monotonic()
    await work(bus)
    _taken.append(time.monotonic() - begin)


async def _stretch() -> float:
    """By the slowest of the last runs: a limit only ends what hangs, and to have it too late costs nothing."""
    factor = stretch(max(_taken) / REFERENCE)
    if SLOWNESS.parent.is_dir():
        await asyncio.to_thread(_write, factor)
    return factor


def _write(factor: float) -> None:
    """The guest as a whole has as long as it needs at its slowest."""
    before = float(SLOWNESS.read_text()) if SLOWNESS.exists() else 0.0
    if factor > before:
        new = SLOWNESS.with_suffix(".new")
        new.write_text(f"{factor:.2f}\n")
        new.rename(SLOWNESS)
