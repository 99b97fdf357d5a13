"""The records of met peers in bluetoothd: most peers come once, under an address of the day."""
from __future__ import annotations

import os
from pathlib import Path

from bumble.core import UUID, AdvertisingData
from bumble.hci import (
    Address, HCI_LE_Set_Advertising_Data_Command, HCI_LE_Set_Advertising_Enable_Command,
    HCI_LE_Set_Advertising_Parameters_Command, HCI_LE_Set_Random_Address_Command, OwnAddressType,
)
from dbus_fast import Message

from harness.machine import BLUEZ, THIRD, adapter_path
from harness.node import Node
from harness.radio import address
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.apps import IOSApp
from phones.mesh.radio import SERVICE, MeshRadio
from phones.phone import Phone
from suites.apps import NODE, Way, meet, node_alone

suite = Suite("traces")

#: Number of phones that connect, or are found, each under an address that is used once.
MET = 100 if os.environ.get("ALL") else 6
#: Number of addresses that advertise for a moment.
SEEN = 10_000 if os.environ.get("ALL") else 1_000
STORE = Path("/var/lib/bluetooth")
DEVICE = "org.bluez.Device1"


def kept() -> set[str]:
    """The peers of the node's adapter that bluetoothd has stored on its disk."""
    folder = STORE / address(NODE)
    folders = (folder, folder / "cache")
    return {path.name for each in folders if each.exists() for path in each.iterdir() if path.name.count(":") == 5}


async def known(stage: Stage) -> set[str]:
    """The peers of the node's adapter that bluetoothd shows."""
    objects = await stage.bus.objects(BLUEZ)
    return {
        interfaces[DEVICE]["Address"] for path, interfaces in objects.items()
        if DEVICE in interfaces and path.startswith(adapter_path(NODE) + "/")
    }


def one_of(number: int) -> Address:
    """A private address, as phones have for a quarter of an hour: for others bluetoothd stores their services for ever."""
    return Address(f"45:05:{number >> 24 & 255:02X}:{number >> 16 & 255:02X}:{number >> 8 & 255:02X}:{number & 255:02X}")


async def until_gone(stage: Stage, before: set[str], disk: set[str]) -> None:
    """Waits until bluetoothd has no new device. It removes those that it only discovered after 30 s."""

    async def test() -> bool:
        return await known(stage) <= before

    await stage.bus.until("bluetoothd has forgotten them", test, 120)
    assert kept() <= disk, f"{len(kept() - disk)} on the disk, of them {sorted(kept() - disk)[:3]}"


async def visit(stage: Stage, node: Node, number: int) -> None:
    """A phone connects under an address of its own, sends a message, and leaves."""
    app = IOSApp(f"phone {number}")
    await stage.machine.free_adapter(THIRD)
    radio = MeshRadio(Phone(THIRD, one_of(1 << 24 | number).to_string(False)), app)
    await radio.switch_on()
    try:
        await meet(radio, node, Way.FOUND if number % 2 else Way.COMES)
        app.say(f"here is phone {number}")
        await node.until_heard(f"here is phone {number}")
    finally:
        await radio.switch_off()


@suite.test("Of phones that come by under addresses of the day bluetoothd keeps nothing, neither on the bus nor on the disk",
            limit=120 + 12 * MET)
async def met(stage: Stage) -> None:
    async with node_alone(stage) as node:
        before, disk = await known(stage), kept()
        for number in range(MET):
            await visit(stage, node, number)
        await until_gone(stage, before, disk)
        stage.measure(f"{MET} phones")


async def parade(phone: Phone, count: int) -> None:
    """Advertises the mesh's service under one address after the other, each for a moment."""
    device = phone.device
    assert device is not None
    structures = [
        (AdvertisingData.FLAGS, b"\x06"), (AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, bytes(UUID(SERVICE)))
    ]
    data = bytes(AdvertisingData(structures))
    await device.send_sync_command(
        HCI_LE_Set_Advertising_Parameters_Command(
            advertising_interval_min=0x20, advertising_interval_max=0x20, advertising_type=0,
            own_address_type=OwnAddressType.RANDOM, peer_address_type=0, peer_address=Address("00:00:00:00:00:00"),
            advertising_channel_map=7, advertising_filter_policy=0,
        )
    )
    await device.send_sync_command(HCI_LE_Set_Advertising_Data_Command(advertising_data=data))
    for number in range(count):
        await device.send_sync_command(HCI_LE_Set_Random_Address_Command(random_address=one_of(2 << 24 | number)))
        for enabled in (1, 0):
            await device.send_sync_command(HCI_LE_Set_Advertising_Enable_Command(advertising_enable=enabled))


@suite.test("Of thousands of addresses that were on the air for a moment bluetoothd keeps nothing, and the next phone is met",
            limit=180 + SEEN // 5)
async def seen(stage: Stage) -> None:
    async with node_alone(stage) as node:
        before, disk = await known(stage), kept()
        shown: set[str] = set()

        def on_signal(message: Message) -> None:
            if message.member == "InterfacesAdded" and message.body[0].startswith(f"{adapter_path(NODE)}/dev_45_05_02"):
                shown.add(message.body[0])

        forget = stage.bus.on_signal(on_signal)
        await stage.machine.free_adapter(THIRD)
        phone = Phone(THIRD)
        await phone.switch_on()
        try:
            await parade(phone, SEEN)
        finally:
            forget()
            await phone.switch_off()
        await visit(stage, node, 0)
        await until_gone(stage, before, disk)
        stage.measure(f"{len(shown)} of {SEEN} were seen")
        assert len(shown) > SEEN // 10, f"{len(shown)} were seen"
        state = await node.service.manager()
        assert state["RadioState"] == "ready", state
