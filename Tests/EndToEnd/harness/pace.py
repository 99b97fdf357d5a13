"""The slowness of this guest: the time of a fixed piece of work, relative to the reference."""
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
#: Number of measurements at first, and number of runs that count: the load of the machine varies.
RUNS = 3
#: Here `scripts/bluez-vm` reads the factor by which it extends the guest's own timeout.
SLOWNESS = Path("/run/bluez-vm/slowness")

LOOPS = 100_000
ROUND_TRIPS = 150


async def work(bus: Bus) -> None:
    """The measured work: some of the interpreter, and some messages over the bus and back."""
    value = 0
    for number in range(LOOPS):
        value = zlib.crc32(number.to_bytes(4, "big"), value) ^ number
    for _ in range(ROUND_TRIPS):
        await bus.call(BUS, "/org/freedesktop/DBus", BUS, "GetId")


_taken: deque[float] = deque(maxlen=RUNS)


async def measure(bus: Bus) -> None:
    """Measures the slowness of the guest, and stretches all limits by it, including the guest's own timeout."""
    for _ in range(RUNS):
        await _measure_once(bus)
    factor = await _stretch()
    runs = ", ".join(f"{seconds:.2f}" for seconds in _taken)
    print(f"The fixed piece of work takes {runs} s here, {REFERENCE} s on the reference: limits times {factor:.2f}", flush=True)


async def measure_again(bus: Bus) -> None:
    """Measures again, because the load of the guest or the machine may have changed."""
    await _measure_once(bus)
    await _stretch()


async def _measure_once(bus: Bus) -> None:
    begin = time.monotonic()
    await work(bus)
    _taken.append(time.monotonic() - begin)


async def _stretch() -> float:
    """Stretches by the slowest of the last runs: a limit only ends a test that hangs, so a late one is harmless."""
    factor = stretch(max(_taken) / REFERENCE)
    if SLOWNESS.parent.is_dir():
        await asyncio.to_thread(_write, factor)
    return factor


def _write(factor: float) -> None:
    """Writes the factor of the complete guest, which is that of its slowest time."""
    before = float(SLOWNESS.read_text()) if SLOWNESS.exists() else 0.0
    if factor > before:
        new = SLOWNESS.with_suffix(".new")
        new.write_text(f"{factor:.2f}\n")
        new.rename(SLOWNESS)
