"""Runs `suites/pair.py` inside each of two guests that share a radio, as root, under its systemd.

    pair.py OUT STAGED FOLDER [WORDS]

OUT     where results and evidence go; its name is the guest's
STAGED  what `make install` would put onto the machine
FOLDER  both guests see it
WORDS   only tests whose name contains these words; `|` stands between several"""
from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import cast

from guest import install, named
from harness.bus import Bus
from harness.machine import BLUEZ, Machine
from harness.pace import measure
from harness.pair import PairStage
from harness.runner import Run, run_all
from harness.stage import Stage
from suites import pair


async def main(out: Path, staged: Path, folder: Path, words: str) -> int:
    tests = named(pair.suite.tests, words)
    if not tests:
        print(f"no test of two guests is called {words}", file=sys.stderr)
        return 2
    bus = await Bus().open(BLUEZ, "org.earshot")
    await install(staged, bus)
    machine = Machine(bus)
    stage = PairStage(bus, machine, out, folder)
    print(f"BlueZ {'.'.join(map(str, machine.bluez))}, kernel {machine.kernel}", flush=True)
    await measure(bus)
    await stage.join()
    done = Run()
    await run_all(cast(Stage, stage), tests, done)
    done.write(out / "results.json")
    return 0 if done.ok else 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    folders = [Path(word) for word in sys.argv[1:4]]
    sys.exit(asyncio.run(main(*folders, " ".join(sys.argv[4:]))))
