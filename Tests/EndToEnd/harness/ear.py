"""A program that tries to receive everything on the system bus: it subscribes to every signal, and to messages for other programs.

    ear.py UID FILE

It runs as this user. It is not a monitor, which only root may be. Each received message is a line of FILE: JSON with its kind, sender,
path, interface, member and byte arrays. The first line reports that it listens."""
from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, TextIO

from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

BUS = "org.freedesktop.DBus"
#: Match rules by which the bus would deliver messages for others, if it did so.
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
    """The names of the properties in a `PropertiesChanged`."""
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
        # That user cannot read root's modules and files, so the user is changed only now.
        if user != 0:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
        asyncio.run(listen(output))
