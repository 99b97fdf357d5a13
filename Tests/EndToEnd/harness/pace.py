"""How slow this guest is: a small piece of work that is always the same, beside what it takes on the reference."""
from __future__ import annotations

import asyncio
import statistics
import time
import zlib
from pathlib import Path

from harness.bus import BUS, Bus
from harness.limits import stretch

#: Seconds of `work` in a guest on an otherwise idle machine of two cores, emulated by QEMU's TCG.
REFERENCE = 1.2
#: So often it is measured: other work on the machine comes and goes.
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


async def measure(bus: Bus) -> None:
    """Measures how slow the guest is, and stretches all limits by it, the guest's own time-out among them."""
    taken = []
    for _ in range(RUNS):
        begin = time.monotonic()
        await work(bus)
        taken.append(time.monotonic() - begin)
    factor = stretch(statistics.median(taken) / REFERENCE)
    if SLOWNESS.parent.is_dir():
        await asyncio.to_thread(SLOWNESS.write_text, f"{factor:.2f}\n")
    runs = ", ".join(f"{seconds:.2f}" for seconds in taken)
    print(f"The fixed piece of work takes {runs} s here, {REFERENCE} s on the reference: limits times {factor:.2f}", flush=True)
