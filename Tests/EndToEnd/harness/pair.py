"""Two guests that run one list of tests simultaneously, on one radio."""
from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness.bus import Bus
from harness.limits import limit
from harness.machine import KIOSK, PHONE, Machine
from harness.node import Node
from harness.service import Service

#: The guest with the shared radio, and the other one.
RADIO, GUEST = "bookworm", "trixie"
#: Polling interval in seconds: the other guest communicates only by files.
PAUSE = 0.2


class PairStage:
    """The stage of a test in one of the two guests. For the runner it is a `Stage`."""

    turns = None

    def __init__(self, bus: Bus, machine: Machine, out: Path, folder: Path) -> None:
        """
        out: where evidence goes.
        folder: both guests see it.
        """
        self.bus = bus
        self.machine = machine
        self.out = out
        self.folder = folder
        self.name = out.name
        self.other = RADIO if self.name == GUEST else GUEST
        self.kiosk = Service.installed(bus)
        self.measured: list[str] = []
        self._test = ""

    def measure(self, text: str) -> None:
        self.measured.append(text)

    async def join(self) -> None:
        """Adds an adapter on the shared radio."""
        program = str(Path(__file__).parents[1] / "wire.py")
        if self.name == RADIO:
            await self.machine.free_adapter(PHONE)
            words = [program, "radio", str(PHONE)]
        else:
            words = [program, "host"]
        path = f"--setenv=PYTHONPATH={':'.join(sys.path[1:])}"
        await self.machine.run_as_unit("wire", path, sys.executable, *words)
        await self.machine.until_powered(KIOSK, timeout=60)

    async def swap(self, step: str, value: Any = None) -> Any:
        """Waits until the other guest is at this step of the test; returns the data that it left there."""
        new = self._file(self.name, step).with_suffix(".new")
        new.write_text(json.dumps(value))
        new.rename(self._file(self.name, step))
        end = time.monotonic() + limit(120)
        while not (found := self._file(self.other, step)).exists():
            if self._file(self.other, "failed").exists():
                raise RuntimeError(f"the test has failed on {self.other}")
            if time.monotonic() > end:
                raise TimeoutError(f"{self.other} has not come to {step!r} within {limit(120):.0f} s")
            await asyncio.sleep(PAUSE)
        return json.loads(found.read_text())

    def _file(self, guest: str, step: str) -> Path:
        return self.folder / f"{self._test}-{guest}-{step}"

    @asynccontextmanager
    async def together(self, name: str) -> AsyncIterator[None]:
        """Runs a test in both guests. When it fails in one, the other stops waiting.

        name: equal in both."""
        self._test = name
        try:
            await self.swap("begin")
            yield
            await self.swap("end")
        except BaseException:
            self._file(self.name, "failed").touch()
            raise

    @asynccontextmanager
    async def neighbours(self, test: str, **mesh: str) -> AsyncIterator[tuple[Node, str]]:
        """A test in which each guest has a node without stored state, whose neighbour is the other guest's node: the own node, and
        the other's peer ID."""
        async with self.together(test):
            node = await Node.make(self.machine, self.name, KIOSK)
            await node.start(**mesh)
            try:
                peer = await self.swap("started", await node.peer_id())
                await node.until_knows(peer, timeout=60)
                await node.until_neighbours(1)
                yield node, peer
                # The guest that ends first waits for the other.
                await self.swap("done")
            finally:
                await node.stop()

    # Calls of the runner to a stage.

    async def invite_tenant(self, wanted: bool) -> None:
        assert not wanted

    def check_tenant(self) -> None:
        pass

    async def reset(self) -> None:
        """Nodes and wallets end with their tests; the verifier may still run after a failure."""
        await self.kiosk.stop()
