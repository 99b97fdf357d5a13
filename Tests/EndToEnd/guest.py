"""Runs the suites inside the guest, as root, under its systemd.

    guest.py OUT STAGED NATIVE [WORDS]

OUT     where results and evidence go
STAGED  what `make install` would put onto the machine
NATIVE  where the programs in C are
WORDS   only tests whose name contains these words"""
from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from pathlib import Path

from harness.bus import BUS, Bus
from harness.machine import BLUEZ, PHONE, Machine, run, systemctl
from harness.runner import run_all
from harness.stage import Stage
from phones.phone import Phone
from suites import all_tests


async def install(staged: Path, bus: Bus) -> None:
    """Puts the service onto the machine as a package would."""
    await asyncio.to_thread(shutil.copytree, staged, "/", dirs_exist_ok=True, symlinks=True)
    await run("systemd-sysusers")
    await bus.call(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig")
    await systemctl("daemon-reload")


async def main(out: Path, staged: Path, native: Path, words: str) -> int:
    tests = [test for test in all_tests() if words.lower() in test.sentence.lower()]
    if not tests:
        print(f"no test is called {words}", file=sys.stderr)
        return 2
    bus = await Bus().open(BLUEZ, "org.earshot")
    await install(staged, bus)
    machine = Machine(bus)
    stage = Stage(bus, machine, Phone(PHONE), out, native)
    print(f"BlueZ {'.'.join(map(str, machine.bluez))}, kernel {machine.kernel}", flush=True)
    results = await run_all(stage, tests)
    await stage.phone.switch_off()
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    folders = [Path(word) for word in sys.argv[1:4]]
    sys.exit(asyncio.run(main(*folders, " ".join(sys.argv[4:]))))
