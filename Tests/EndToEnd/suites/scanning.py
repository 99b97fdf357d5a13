"""Scanning that stops in the controller without a report to bluetoothd and the kernel: the service restarts it, and finds new
phones."""
from __future__ import annotations

import time

from harness.machine import ADAPTER, BLUEZ, adapter_path, run
from harness.management import stop_scan
from harness.node import Node
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.apps import IOSApp
from suites.apps import NODE, Way, acquainted, meet, node_alone, switched_on

suite = Suite("scanning")


async def restarts(node: Node) -> int:
    return (await node.service.manager())["Counters"]["ScanRestarts"]


async def discovering(stage: Stage) -> bool:
    return (await stage.bus.objects(BLUEZ))[adapter_path(NODE)][ADAPTER]["Discovering"]


async def lines(since: str) -> list[str]:
    """Returns the lines about restarts of scanning after a cursor of the journal. Only one service runs."""
    found = await run("journalctl", f"--after-cursor={since}", "--output", "cat", "--quiet", check=False)
    return [line for line in found.splitlines() if "scanning is restarted" in line]


async def find_another(stage: Stage) -> None:
    """Disables scanning in the controller, and checks that a new phone is found by a restart that is counted and in the journal. On a
    slow guest an earlier interruption of this run may have a line of its own."""
    since = await stage.machine.journal_end()
    async with node_alone(stage) as node, switched_on(stage, IOSApp("first"), IOSApp("second")) as (first, second):
        await meet(first, node, Way.FOUND)
        before = await restarts(node)
        stop_scan(NODE)
        stopped = time.monotonic()
        assert await discovering(stage), "bluetoothd has noticed"
        await second.advertise()
        await node.until_knows(second.app.id.hex(), 150)
        stage.measure(f"known after {time.monotonic() - stopped:.0f} s")
        await acquainted(second.app, node)
        assert await restarts(node) > before, "nothing was restarted"
        assert await lines(since), "nothing was written down"
        state = await node.service.manager()
        assert state["RadioState"] == "ready", state


@suite.test("A phone that arrives after scanning has stopped in the controller is found", limit=200)
async def stopped(stage: Stage) -> None:
    await find_another(stage)


@suite.test("A phone that arrives after scanning has stopped in the controller is found, even if another program discovers", limit=300)
async def stopped_beside(stage: Stage) -> None:
    await stage.set_radio()
    await stage.bus.call(BLUEZ, adapter_path(NODE), ADAPTER, "StartDiscovery")
    try:
        await find_another(stage)
    finally:
        await stage.bus.call(BLUEZ, adapter_path(NODE), ADAPTER, "StopDiscovery")
