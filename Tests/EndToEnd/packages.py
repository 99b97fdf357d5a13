"""Runs `suites/packages.py` inside a guest, as root, under its systemd. Nothing of the project is installed before.

    packages.py OUT PACKAGES NATIVE [WORDS]

OUT       where results and evidence go; its name ends with that of the guest
PACKAGES  the folders `current` and `previous` with the packages of two versions
NATIVE    where the programs in C are
WORDS     only tests whose name contains these words, after that of the suite (`packages: `); `|` stands between several"""
from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import cast

from guest import named
from harness.bus import Bus
from harness.machine import BLUEZ, PHONE, Machine
from harness.pace import measure
from harness.packages import Packages, PackagesStage
from harness.runner import Run, run_all
from harness.stage import Stage
from phones.phone import Phone
from suites import packages


async def main(out: Path, folder: Path, native: Path, words: str) -> int:
    tests = named(packages.suite.tests, words)
    if not tests:
        print(f"no test of the packages is called {words}", file=sys.stderr)
        return 2
    bus = await Bus().open(BLUEZ, "org.earshot")
    machine = Machine(bus)
    stage = PackagesStage(bus, machine, Phone(PHONE), out, native, Packages(folder / "current", folder / "previous"))
    print(f"BlueZ {'.'.join(map(str, machine.bluez))}, kernel {machine.kernel}, packages: {', '.join(stage.packages.names)}", flush=True)
    await measure(bus)
    done = Run()
    await run_all(cast(Stage, stage), tests, done)
    done.write(out / "results.json")
    if done.rest is None:
        await stage.leave()
    return 0 if done.ok else 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    folders = [Path(word) for word in sys.argv[1:4]]
    sys.exit(asyncio.run(main(*folders, " ".join(sys.argv[4:]))))
