"""Runs the suites inside the guest, as root, under its systemd.

    guest.py OUT STAGED NATIVE [WORDS]

OUT     where results and evidence go
STAGED  what `make install` would put onto the machine
NATIVE  where the programs in C are
WORDS   only tests whose name contains these words, after that of their suite (`mesh: `); `|` stands between several

E2E_BUDGET  seconds that it may take; where all tests would take longer, the selection of suites/selection.py is run
E2E_TURNS   the folder by which guests that run side by side take turns with what they measure

Where the guest's kernel breaks it ends with 75: OUT/results.json has the tests that are left, and the next call with the same OUT runs them."""
from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
from pathlib import Path

from harness.bus import BUS, Bus
from harness.limits import slowness
from harness.machine import BLUEZ, PHONE, Machine, run, systemctl
from harness.pace import measure
from harness.runner import Run, Test, run_all
from harness.stage import Stage
from harness.turns import Turns
from phones.phone import Phone
from suites import all_tests
from suites.selection import choose, mistakes


#: The status with which it ends where the rest of the tests wants another guest.
KERNEL_BROKE = 75


async def install(staged: Path, bus: Bus) -> None:
    """Puts the service onto the machine as a package would."""
    await asyncio.to_thread(shutil.copytree, staged, "/", dirs_exist_ok=True, symlinks=True)
    await run("systemd-sysusers")
    await bus.call(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig")
    await systemctl("daemon-reload")
    # bluetoothd runs without the package's option, as on a machine where it is installed.
    await run("sh", str(Path(__file__).parents[2] / "debian" / "earshot.postinst"), "configure")


def named(tests: list[Test], words: str) -> list[Test]:
    """Those whose name contains one of the parts of `words`; all tests where `words` is empty."""
    parts = words.lower().split("|")
    return [test for test in tests if any(part in f"{test.suite}: {test.sentence}".lower() for part in parts)]


async def main(out: Path, staged: Path, native: Path, words: str) -> int:
    tests = all_tests()
    if wrong := mistakes(tests):
        print("\n".join(wrong), file=sys.stderr)
        return 2
    tests = named(tests, words)
    if not tests:
        print(f"no test is called {words}", file=sys.stderr)
        return 2
    bus = await Bus().open(BLUEZ, "org.earshot")
    await install(staged, bus)
    machine = Machine(bus)
    folder = os.environ.get("E2E_TURNS")
    stage = Stage(bus, machine, Phone(PHONE), out, native, Turns(Path(folder), out.name) if folder else None)
    print(f"BlueZ {'.'.join(map(str, machine.bluez))}, kernel {machine.kernel}", flush=True)
    await measure(bus)
    budget = os.environ.get("E2E_BUDGET")
    file = out / "results.json"
    done = Run.read(file)
    if done.rest is None:
        done = Run()
        if not words:
            tests = choose(tests, slowness(), float(budget) if budget else None)
    else:
        tests = [test for test in tests if test.sentence in done.rest]
        done.rest = None
    await run_all(stage, tests, done)
    done.write(file)
    if done.rest is not None:
        # On a broken kernel nothing can be put in order.
        return KERNEL_BROKE if done.rest else 0 if done.ok else 1
    await stage.leave()
    return 0 if done.ok else 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)
    folders = [Path(word) for word in sys.argv[1:4]]
    sys.exit(asyncio.run(main(*folders, " ".join(sys.argv[4:]))))
