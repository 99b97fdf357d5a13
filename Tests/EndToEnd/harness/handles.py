"""Uses up the handles of an adapter's attributes, as programs do that come and go: bluetoothd gives no handle out twice by itself.

Once it has given out 1,024 it makes the Database Hash no longer anew (`bt_crypto_gatt_hash` hands one buffer for each handle to `writev`,
which takes 1,024), and peers that go by the hash believe what they remember of the adapter."""
from __future__ import annotations

import asyncio

from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from harness.limits import limit
from harness.machine import BLUEZ, adapter_path
from phones.tuvali import short

ROOT = "/crowd"
SERVICE = f"{ROOT}/service"
#: Of the one service; each takes two handles.
CHARACTERISTICS = 600

Objects = dict[str, dict[str, dict[str, Variant]]]


def _objects() -> Objects:
    objects: Objects = {
        SERVICE: {"org.bluez.GattService1": {"UUID": Variant("s", short(0xFFC0)), "Primary": Variant("b", True)}}
    }
    for number in range(CHARACTERISTICS):
        objects[f"{SERVICE}/c{number}"] = {
            "org.bluez.GattCharacteristic1": {
                "UUID": Variant("s", short(0xFFC1)), "Service": Variant("o", SERVICE), "Flags": Variant("as", ["read"]),
            }
        }
    return objects


def _answer(message: Message) -> Message | None:
    if message.message_type is MessageType.METHOD_CALL and message.member == "GetManagedObjects":
        return Message.new_method_return(message, "a{oa{sa{sv}}}", [_objects()])
    return None


async def use_up(adapter: int) -> None:
    """Has bluetoothd give out 1,201 handles, to a service that is gone afterwards."""
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
    bus.add_message_handler(_answer)
    try:
        for method, signature, arguments in (("RegisterApplication", "oa{sv}", [ROOT, {}]), ("UnregisterApplication", "o", [ROOT])):
            async with asyncio.timeout(limit(30)):
                reply = await bus.call(Message(
                    destination=BLUEZ, path=adapter_path(adapter), interface="org.bluez.GattManager1", member=method,
                    signature=signature, body=arguments,
                ))
            assert reply is not None and reply.message_type is not MessageType.ERROR, f"{method}: {reply and reply.body}"
    finally:
        bus.disconnect()
