"""A program on the system bus that takes all it can get: it asks for every signal, and for what is sent to others.

    ear.py UID FILE

As this user, and no monitor, which only root can be and which the bus is told. Each message that arrives is a line of FILE:
JSON with its kind, sender, path, interface, member and the bytes that are in it. The first line says that it listens."""
from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, TextIO

from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

BUS = "org.freedesktop.DBus"
#: The rules under which the bus would hand over what is not meant for this program, if it did.
RULES = ("", "type='signal'", "eavesdrop='true'", "eavesdrop='true',type='method_call'", "eavesdrop='true',type='method_return'")


def byte_arrays(value: Any) -> list[str]:
    """Every array of bytes in a value, in hexadecimal digits."""
    if isinstance(value, Variant):
        return byte_arrays(value.value)
    if isinstance(value, (bytes, bytearray)):
        return [bytes(value).hex()]
    if isinstance(value, dict):
        return [found for item in value.items() for part in item for found in byte_arrays(part)]
    if isinstance(value, (list, tuple)):
        return [found for item in value for found in byte_arrays(item)]
    return []


def changed(message: Message) -> list[str]:
    """The properties that a `PropertiesChanged` names."""
    if message.member != "PropertiesChanged" or len(message.body) < 3:
        return []
    return [*message.body[1], *message.body[2]]


async def listen(file: TextIO) -> None:
    bus = await MessageBus(bus_type=BusType.SYSTEM).connect()

    def write(record: dict[str, Any]) -> None:
        print(json.dumps(record), file=file, flush=True)

    def on_message(message: Message) -> None:
        write({
            "kind": message.message_type.name, "sender": message.sender, "path": message.path, "interface": message.interface,
            "member": message.member, "changed": changed(message), "bytes": byte_arrays(message.body),
        })

    bus.add_message_handler(on_message)
    refused = []
    for rule in RULES:
        call = Message(
            destination=BUS, path="/org/freedesktop/DBus", interface=BUS, member="AddMatch", signature="s", body=[rule]
        )
        if (await bus.call(call)).message_type is MessageType.ERROR:
            refused.append(rule)
    write({"kind": "LISTENS", "name": bus.unique_name, "refused": refused})
    await bus.wait_for_disconnect()


if __name__ == "__main__":
    user = int(sys.argv[1])
    with open(sys.argv[2], "w") as output:
        # Root's modules and files are not that user's, so it becomes that user only now.
        if user != 0:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        asyncio.run(listen(output))
