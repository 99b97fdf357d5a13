"""Private presence by Bluetooth: two machines, each with both processes, on two adapters of one bluetoothd."""
from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.instances import one_more
from harness.machine import ADAPTER, BLUEZ, KIOSK, SECOND, adapter_path
from harness.monitor import watching
from harness.presence import PATH, PEER, Echo, Presence
from harness.radio import address
from harness.runner import Suite
from harness.service import Settings
from harness.stage import Stage

suite = Suite("presence")
#: The service UUID of the protocol, in the order of its text.
SERVICE = bytes.fromhex("B6A44AD1D3194B3A815D8B805A47FB51")
#: Words of the reason on a kernel that may crash if a peer does not answer.
NO_CLIENT = "opens no streams to peers"


def radio_settings(adapter: int) -> Settings:
    return {
        "Radio": {"Adapter": f"hci{adapter}"}, "Verifier": {"Enabled": "no"}, "Wallet": {"Enabled": "no"},
        "Log": {"Level": "debug"},
    }


def advertisement(generation: int, adapter: int) -> bytes:
    """The 29 octets: the UUID in an incomplete list, least significant octet first, and service data with the key D1 4A, the
    generation and the adapter's address, most significant octet first."""
    own = bytes.fromhex(address(adapter).replace(":", ""))
    return bytes([17, 0x06]) + SERVICE[::-1] + bytes([10, 0x16, 0xD1, 0x4A, generation]) + own


@dataclass
class Meeting:
    anna: Presence
    ben: Presence
    #: The path of anna among ben's peers.
    anna_for_ben: str


@asynccontextmanager
async def meeting(stage: Stage) -> AsyncIterator[Meeting]:
    """Anna on the kiosk's adapter and ben on another one, who know each other."""
    await stage.set_radio()
    await stage.machine.until_powered(SECOND)
    second = await one_more(stage.bus, "second")
    anna, ben = Presence.installed(stage.bus), await Presence.one_more(stage.bus, "second")
    async with AsyncExitStack() as stack:
        for service, adapter in ((stage.kiosk, KIOSK), (second, SECOND)):
            await service.start(radio_settings(adapter))
            stack.push_async_callback(service.stop)
        for presence in (anna, ben):
            await presence.start()
            stack.push_async_callback(presence.stop)
        for presence in (anna, ben):
            await presence.until("the service is ready", State="ready")
        peers = [path for presence in (anna, ben) for path in await known(presence)]
        for presence, path in peers:
            await presence.call("RemovePeer", "o", path)
        await anna.add("ben", ben)
        yield Meeting(anna, ben, await ben.add("anna", anna))


async def known(presence: Presence) -> list[tuple[Presence, str]]:
    """The peers that an earlier test has added."""
    found = await presence.service.bus.objects(presence.service.name, PATH)
    return [(presence, path) for path, interfaces in found.items() if PEER in interfaces]


async def check_devices(stage: Stage) -> None:
    """Checks that no adapter is discoverable, and that nobody is bonded."""
    for path, interfaces in (await stage.bus.objects(BLUEZ)).items():
        if path in (adapter_path(KIOSK), adapter_path(SECOND)):
            assert not interfaces[ADAPTER]["Discoverable"], path
        device = interfaces.get("org.bluez.Device1")
        assert not (device and device.get("Bonded")), path


@suite.test("A known peer is found by its advertisement alone, three streams share one RFCOMM link, nobody is bonded or discoverable, and "
            "both relays end and come back when bluetoothd is killed", limit=150)
async def streams(stage: Stage) -> None:
    async with meeting(stage) as met, watching(KIOSK) as sets:
        if NO_CLIENT in (await met.ben.properties())["Reason"]:
            stage.measure("this kernel is not safe, and the reason says so")
            return
        echo = Echo(Path("/run/earshot-e2e-echo"))
        await echo.open()
        try:
            await met.anna.call("Register", "ss", "echo", str(echo.path))
            await met.anna.call("Announce", "asu", ["ben"], 0)
            begin = time.monotonic()
            await met.ben.until_nearby(met.anna_for_ben, ["bluetooth"])
            found = time.monotonic() - begin
            await three_streams(stage, met, echo)
            await stage.machine.start_bluetoothd()
            for adapter in (KIOSK, SECOND):
                await stage.machine.until_powered(adapter)
            await met.anna.until("anna can be reached again", Reachable=["bluetooth"])
            await met.ben.until_nearby(met.anna_for_ben, ["bluetooth"])
            await three_streams(stage, met, echo, is_last=True)
            await met.anna.call("Silence")
            shown = [one for one in sets.shown if one.data[2:18] == SERVICE[::-1]]
            assert shown, sets.shown
            for one in shown:
                assert one.data == advertisement(one.data[22], KIOSK), one.data.hex()
            stage.measure(f"found after {found:.1f} s")
        finally:
            echo.close()


async def three_streams(stage: Stage, met: Meeting, echo: Echo, is_last: bool = False) -> None:
    """Opens three streams over one link. Unless this is the last time, bluetoothd is killed while they are open."""
    before = await met.anna.counter("AcceptedLinks")
    opened = [await met.ben.open(met.anna_for_ben, "echo") for _ in range(3)]
    data = [os.urandom(20_000) for _ in opened]
    back = await asyncio.gather(*(stream.echo(part) for stream, part in zip(opened, data, strict=True)))
    assert back == data
    # The link that has fetched the beacons may carry the streams, too.
    assert await met.anna.counter("AcceptedLinks") <= before + 1
    await check_devices(stage)
    if is_last:
        for stream in opened:
            stream.close()
        return
    begin = time.monotonic()
    await stage.machine.kill_bluetoothd()
    await asyncio.gather(*(stream.until_ended(5) for stream in opened), echo.until_ended(5))
    stage.measure(f"both relays ended after {time.monotonic() - begin:.1f} s")
