"""How fast a file crosses from one Linux node to another, beside bare packets of the same number and size on the same machine, and
what chat notices of it. How fast that is, is shown and not judged: it is the emulated processor's, and the other work's on the machine."""
from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from typing import Any

from dbus_fast import Variant

from harness.bus import BUS
from harness.limits import limit
from harness.machine import ADAPTER, BLUEZ, FOURTH, LAST_PARTNER, adapter_path, systemctl
from harness.node import FILE, MESH, Node
from harness.radio import slow_down
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.apps import AndroidApp
from suites.apps import Way, meet, node_alone, switched_on
from suites.media import know_each_other, noise, until_has
from suites.mesh import chat, nodes

suite = Suite("meshspeed", measures=True)
KB, MIB = 1000, 1 << 20
BARE_UNIT = "bare-gatt.service"
BARE_PATH = "/bare/service/characteristic"
BARE_CHARACTERISTIC = "0000fff1-0000-1000-8000-00805f9b34fb"
CHARACTERISTIC, DEVICE = "org.bluez.GattCharacteristic1", "org.bluez.Device1"
#: Of a kind: each file has its bare packets right behind it, for other work on the host comes and goes. Either takes up to
#: three times as long in one run as in the next, by who wakes when on the one processor; so their sums are compared.
RUNS = 5
#: Slower than this nothing crosses in any guest, in bytes a second of the reference.
SLOWEST = 4000
#: Bytes of a fragment before its slice, and of a ping.
FRAGMENT_HEAD, PING = 35, 40
#: Lines of a kind: of 150 the second slowest is what one in a hundred exceeds.
LINES = 150
#: Seconds after a line in which a node keeps its files from delaying the next one (docs/mesh-protocol.md, "Files").
CHAT_TIME = 30
#: A radio that is slower than the emulated processor, in bytes a second.
SLOW = 20_000
#: Seconds of the file, its frames, and seconds of as many bare packets, of each run, by the name of the sender and the size in
#: bytes.
Taken = dict[tuple[str, int], list[tuple[float, int, float | None]]]


@asynccontextmanager
async def bare_link(stage: Stage) -> AsyncIterator[str]:
    """bluetoothd's link from one adapter to a bare server on another, beside the links of nodes; where its characteristic is."""
    await systemctl("reset-failed", BARE_UNIT, check=False)
    await stage.machine.run_as_unit(BARE_UNIT, str(stage.native / "bare_gatt"), f"hci{LAST_PARTNER}", "socket")
    try:
        async with _link_with_bare(stage) as path:
            yield path
    finally:
        await systemctl("stop", BARE_UNIT)


@asynccontextmanager
async def _link_with_bare(stage: Stage) -> AsyncIterator[str]:
    bus = stage.bus
    here, there = adapter_path(FOURTH), adapter_path(LAST_PARTNER)
    address = (await bus.properties(BLUEZ, there, ADAPTER))["Address"]
    device = f"{here}/dev_{address.replace(':', '_')}"
    await bus.until("the link of the test before is gone", lambda: _is_free(stage, device), 30)
    # The bare server says no flags, and without a pattern bluetoothd 5.66 knows nothing of who is not discoverable.
    await bus.call(BLUEZ, here, ADAPTER, "SetDiscoveryFilter", "a{sv}", {"Transport": Variant("s", "le"), "Pattern": Variant("s", "")})
    await bus.call(BLUEZ, here, ADAPTER, "StartDiscovery")
    try:
        await bus.until("the bare server is heard", lambda: _has(stage, device, DEVICE), 30)
    finally:
        await bus.call(BLUEZ, here, ADAPTER, "StopDiscovery")
    try:
        await bus.call(BLUEZ, device, DEVICE, "Connect")
        yield await bus.until("the characteristic is there", lambda: _characteristic(stage, device), 30)
    finally:
        await bus.call(BLUEZ, here, ADAPTER, "RemoveDevice", "o", device)


async def _is_free(stage: Stage, device: str) -> bool:
    found = await stage.bus.objects(BLUEZ)
    return not found.get(device, {}).get(DEVICE, {}).get("Connected", False)


async def _has(stage: Stage, path: str, interface: str) -> bool:
    return interface in (await stage.bus.objects(BLUEZ)).get(path, {})


async def _characteristic(stage: Stage, device: str) -> str | None:
    found = await stage.bus.objects(BLUEZ)
    if not found.get(device, {}).get(DEVICE, {}).get("ServicesResolved"):
        return None
    uuids = {path: each[CHARACTERISTIC]["UUID"] for path, each in found.items() if CHARACTERISTIC in each}
    return next((path for path, uuid in uuids.items() if path.startswith(device) and uuid == BARE_CHARACTERISTIC), None)


async def bare_server(stage: Stage) -> str:
    """Its name on the bus."""
    process = int(await systemctl("show", "--value", "--property=MainPID", BARE_UNIT))
    for name in await stage.bus.call(BUS, "/org/freedesktop/DBus", BUS, "ListNames"):
        if name.startswith(":") and await stage.bus.call(BUS, "/", BUS, "GetConnectionUnixProcessID", "s", name) == process:
            return name
    raise AssertionError("the bare server is not on the bus")


async def bare_seconds(stage: Stage, path: str, sizes: list[int]) -> float | None:
    """How long packets of these sizes take, from the first to the word of the server that the last has come; None where some were lost:
    5.66 loses what goes over several ATT channels (docs/bluez.md, "Two Linux machines"), and nobody sends bare packets again."""
    server = await bare_server(stage)

    async def came() -> int:
        return int.from_bytes(bytes(await stage.bus.call(server, BARE_PATH, CHARACTERISTIC, "ReadValue", "a{sv}", {})), "little")

    def write_all() -> None:
        for size in sizes:
            os.write(descriptor, bytes(size))

    before, longest = await came(), 60 + sum(sizes) / SLOWEST
    descriptor = await stage.bus.call(BLUEZ, path, CHARACTERISTIC, "AcquireWrite", "a{sv}", {})
    try:
        os.set_blocking(descriptor, True)
        begin = time.monotonic()
        await asyncio.to_thread(write_all)
        async with asyncio.timeout(limit(longest)):
            # To ask costs the emulated processor as much as some packets do.
            while (now := await came()) < before + sum(sizes):
                await asyncio.sleep(0.05)
        assert now == before + sum(sizes), (now, before)
        return time.monotonic() - begin
    except TimeoutError:
        if stage.machine.bluez >= (5, 69):
            raise
        return None
    finally:
        os.close(descriptor)


class Arrival:
    """Notes when something was signalled by a node."""

    def __init__(self, node: Node, member: str) -> None:
        self.moment: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._member = member
        self._end = node.bus.on_signal(self._on_signal)

    def _on_signal(self, message: Any) -> None:
        if message.interface == MESH and message.member == self._member and not self.moment.done():
            self.moment.set_result(time.monotonic())

    async def __aenter__(self) -> Arrival:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    async def time(self, timeout: float) -> float:
        """When it was, by the monotonic clock."""
        try:
            async with asyncio.timeout(limit(timeout)):
                return await self.moment
        except TimeoutError:
            raise TimeoutError(f"no {self._member} within {limit(timeout):.0f} s") from None


async def file_seconds(one: Node, other: Node, name: str, size: int) -> tuple[float, int]:
    """How long a file for all takes from the call to the word that it is there, and in how many frames it left."""
    content = noise(name, size)
    before = (await one.counters())["SentFrames"]
    async with Arrival(other, "FileReceived") as arrival:
        begin = time.monotonic()
        path = await one.send_file(content, name)
        end = await arrival.time(30 + size / SLOWEST)
    frames = (await one.counters())["SentFrames"] - before
    assert (await other.until_file(name))["Content"] == content
    await one.until_file_is(path, "sent")
    await one.service.call(path, FILE, "Delete")
    return end - begin, frames


@suite.test("Files of 100 kB and 1 MiB for all cross between two nodes each way", limit=2400)
async def files(stage: Stage) -> None:
    has_sockets = stage.machine.bluez >= (5, 76)
    taken: Taken = {}
    async with nodes(stage, 2) as found, bare_link(stage) as path:
        await meet_and_chat(found)
        await until_nobody_chats()
        for run in range(RUNS):
            # Where each packet is a request, one file of 1 MiB takes minutes.
            await send_each_way(stage, found, path, (100 * KB, MIB) if has_sockets or run == 0 else (100 * KB,), taken)
    show_files(stage, taken)


async def meet_and_chat(found: list[Node]) -> None:
    for node in found:
        await node.until_neighbours(1)
    await chat(*found)


async def until_nobody_chats() -> None:
    """Files leave room for lines until then, and are somewhat slower."""
    await asyncio.sleep(CHAT_TIME + 1)


async def send_each_way(stage: Stage, found: list[Node], path: str, sizes: tuple[int, ...], taken: Taken) -> None:
    """Files of these sizes, each followed by as many bare packets on the link whose characteristic is there."""
    # To read each value that bluetoothd signals, this program would take the emulated processor from who sends it.
    async with found[0].bus.hearing_only(BLUEZ):
        for one, other in (found, found[::-1]):
            for size in sizes:
                runs = taken.setdefault((one.name, size), [])
                seconds, frames = await file_seconds(one, other, f"{one.name} {size} {len(runs)}", size)
                runs.append((seconds, frames, await bare_seconds(stage, path, packets_of(stage, size, frames))))


def packets_of(stage: Stage, size: int, frames: int) -> list[int]:
    """The sizes of the packets of a file that went in so many frames: fragments, and amid them pings."""
    longest = 512 if stage.machine.bluez >= (5, 76) else 509
    fragments = -(-size // (longest - FRAGMENT_HEAD))
    return [PING if number * fragments // frames == (number + 1) * fragments // frames else longest for number in range(frames)]


def show_files(stage: Stage, taken: Taken) -> None:
    """Shows what files took beside bare packets of the same sizes: the best rate, and the ratio of their times."""
    for (name, size), runs in taken.items():
        seconds, frames, _ = min(runs, key=lambda run: run[0])
        stage.measure(f"{size // KB} kB from {name}: {size / seconds / 1000:.0f} kB/s in {frames} frames, {_shares(runs)}")
    for wanted in dict.fromkeys(size for _, size in taken):
        runs = [run for (_, size), each in taken.items() if size == wanted for run in each]
        stage.measure(f"{wanted // KB} kB both ways: {_shares(runs)}")


def _shares(runs: list[tuple[float, int, float | None]]) -> str:
    pairs = [(seconds, bare) for seconds, _, bare in runs if bare is not None]
    if not pairs:
        return "of bare packets some were lost each time"
    whole = sum(bare for _, bare in pairs) / sum(seconds for seconds, _ in pairs)
    ratios = sorted(bare / seconds for seconds, bare in pairs)
    each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"{whole:.2f} of bare packets, median {median(ratios):.2f} ({each})"


async def latencies(one: Node, other: Node, label: str, count: int) -> list[float]:
    """How long lines take to the other end, one after the other; sorted."""
    found = []
    for number in range(count):
        async with Arrival(other, "MessageReceived") as arrival:
            begin = time.monotonic()
            await one.say(f"{label} {number}")
            found.append(await arrival.time(30) - begin)
        await asyncio.sleep(limit(0.02))
    return sorted(found)


async def show_lines(stage: Stage, one: Node, other: Node) -> None:
    """Shows how long lines take, alone and beside a file that goes the same way."""
    await latencies(one, other, "before", 10)
    found = {"alone": await latencies(one, other, "alone", LINES), "beside a file": await beside_files(one, other)}
    found[f"beside a file after {CHAT_TIME} s without a line"] = await first_lines(one, other)
    for what, times in found.items():
        share = "" if what == "alone" else f", {last(times) / last(found['alone']):.1f} times that alone"
        stage.measure(f"{what}: median {median(times) * 1000:.0f} ms, p99 {last(times) * 1000:.0f} ms of {len(times)}{share}")


async def beside_files(one: Node, other: Node) -> list[float]:
    found: list[float] = []
    for round in range(30):
        path = await begin_file(one, f"file {round}")
        while (await one.files())[path]["State"] == "sending" and len(found) < LINES:
            found += await latencies(one, other, f"beside {len(found)} {round}", 5)
        if len(found) >= LINES:
            await one.service.call(path, FILE, "Delete")
            return sorted(found)
        await one.until_file_is(path, "sent", timeout=30)
    raise AssertionError("the files were too fast")


async def first_lines(one: Node, other: Node) -> list[float]:
    found: list[float] = []
    for round in range(3):
        await until_nobody_chats()
        path = await begin_file(one, f"quiet {round}")
        await one.until_out(path, 5)
        found += await latencies(one, other, f"first {round}", 1)
        await one.service.call(path, FILE, "Delete")
    return sorted(found)


async def begin_file(one: Node, name: str) -> str:
    path = await one.send_file(noise(name, MIB), name)
    await one.until_file_is(path, "sending")
    return path


@suite.test("Lines arrive beside a running file", limit=800)
async def lines(stage: Stage) -> None:
    async with nodes(stage, 2) as found:
        await meet_and_chat(found)
        async with found[0].bus.hearing_only(BLUEZ):
            await show_lines(stage, *found)


@suite.test("On a radio of 20 kB/s files cross, and lines arrive beside them", limit=2400)
async def slow_radio(stage: Stage) -> None:
    """The air is the narrow place, as it is on a machine that is not emulated."""
    try:
        taken: Taken = {}
        async with nodes(stage, 2) as found, bare_link(stage) as path:
            await meet_and_chat(found)
            await until_nobody_chats()
            slow_down(SLOW)
            await send_each_way(stage, found, path, (100 * KB, MIB), taken)
            async with found[0].bus.hearing_only(BLUEZ):
                await show_lines(stage, *found)
        for (name, size), [(seconds, _, _)] in taken.items():
            stage.measure(f"{size // KB} kB from {name}: {size / seconds / SLOW:.2f} of the air")
        show_files(stage, taken)
    finally:
        slow_down(None)


def last(times: list[float]) -> float:
    """The time that one in a hundred exceeds, of sorted ones."""
    return times[min(len(times) - 1, int(len(times) * 0.99))]


@suite.test("A file goes to an Android phone, one fragment after the other", limit=200)
async def to_phone(stage: Stage) -> None:
    app = AndroidApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        await meet(radio, node, Way.FOUND)
        await know_each_other(app, node)
        content = noise("pace", 100 * KB)
        before = (await node.counters())["SentFrames"]
        begin = time.monotonic()
        path = await node.send_file(content, "pace")
        file = await until_has(app, "pace", 90)
        taken = time.monotonic() - begin
        assert file.content == content
        await node.until_file_is(path, "sent")
        allowed = ((await node.counters())["SentFrames"] - before) * 0.025
        stage.measure(f"{taken:.1f} s, the pacing alone takes {allowed:.1f} s: {allowed / taken:.2f} of what it allows")
