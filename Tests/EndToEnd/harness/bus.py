"""The system bus, as any client sees it."""
from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from dbus_fast import BusType, DBusError, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from harness.limits import limit

BUS = "org.freedesktop.DBus"
PROPERTIES = "org.freedesktop.DBus.Properties"
OBJECTS = "org.freedesktop.DBus.ObjectManager"

#: A service that is going away, or gone.
ABSENT = {
    f"{BUS}.Error.{name}"
    for name in ("ServiceUnknown", "NameHasNoOwner", "NoReply", "UnknownObject", "UnknownMethod", "UnknownInterface",
                 "InvalidArgs", "Disconnected")
} | {"org.freedesktop.systemd1.NoSuchUnit"}  # the bus may start an enabled unit alone


def plain(value: Any) -> Any:
    """Returns a D-Bus value without its variants."""
    if isinstance(value, Variant):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def signals_of(sender: str) -> str:
    return f"type='signal',sender='{sender}'"


class Bus:
    """One connection. `until` waits for the effects of signals, without polling."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._listeners: list[Callable[[Message], None]] = []
        #: Descriptors that came with the end of the message before theirs: the kernel hands over both at one time, and dbus_fast gives
        #: them to whichever message is read first.
        self._strayed: list[int] = []

    async def open(self, *senders: str) -> Bus:
        self._bus = await MessageBus(bus_type=BusType.SYSTEM, negotiate_unix_fd=True).connect()
        self._bus.add_message_handler(self._on_message)
        for sender in senders:
            await self._match("AddMatch", signals_of(sender))
        await self._match("AddMatch", f"{signals_of(BUS)},member='NameOwnerChanged'")
        return self

    async def listen(self, sender: str) -> None:
        """Subscribes to all signals of one more program."""
        await self._match("AddMatch", signals_of(sender))

    async def _match(self, method: str, rule: str) -> None:
        await self.call(BUS, "/org/freedesktop/DBus", BUS, method, "s", rule)

    @asynccontextmanager
    async def hearing_only(self, sender: str, *what: str) -> AsyncIterator[None]:
        """Restricts reception to these signals of the program for a while: `member='Changed'`. This program needs more time to read all
        of them than the service needs to send them."""
        few = [f"{signals_of(sender)},{part}" for part in what]
        for rule in few:
            await self._match("AddMatch", rule)
        await self._match("RemoveMatch", signals_of(sender))
        try:
            yield
        finally:
            await self._match("AddMatch", signals_of(sender))
            for rule in few:
                await self._match("RemoveMatch", rule)

    def _on_message(self, message: Message) -> None:
        if message.unix_fds and "h" not in message.signature:
            self._strayed += message.unix_fds
        if message.message_type is MessageType.SIGNAL:
            for listener in list(self._listeners):
                listener(message)
            self._news.set()

    def on_signal(self, listener: Callable[[Message], None]) -> Callable[[], None]:
        """Calls `listener` with each signal until the returned registration is cancelled."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def call(
        self, name: str, path: str, interface: str, method: str, signature: str = "", *arguments: Any,
        descriptors: list[int] | None = None,
    ) -> Any:
        """Calls a method; several return values become a list. A descriptor arrives as a number of this process."""
        message = Message(
            destination=name, path=path, interface=interface, member=method, signature=signature,
            body=list(arguments), unix_fds=descriptors or [],
        )
        async with asyncio.timeout(limit(30)):
            reply = await self._bus.call(message)
        if reply.message_type is MessageType.ERROR:
            raise DBusError(reply.error_name, str(reply.body[0]) if reply.body else "")
        if reply.signature.startswith("h"):
            return reply.unix_fds[0] if reply.unix_fds else self._strayed.pop(0)
        values = plain(reply.body)
        return values[0] if len(values) == 1 else values

    async def properties(self, name: str, path: str, interface: str) -> dict[str, Any]:
        return await self.call(name, path, PROPERTIES, "GetAll", "s", interface)

    async def set(self, name: str, path: str, interface: str, property: str, value: Variant) -> None:
        await self.call(name, path, PROPERTIES, "Set", "ssv", interface, property, value)

    async def emit_properties_changed(self, path: str, interface: str, name: str, signature: str, value: Any) -> None:
        """Broadcasts PropertiesChanged for an object of this program."""
        body = [interface, {name: Variant(signature, value)}, []]
        await self._bus.send(
            Message(
                message_type=MessageType.SIGNAL, path=path, interface=PROPERTIES, member="PropertiesChanged",
                signature="sa{sv}as", body=body,
            )
        )

    async def objects(self, name: str, path: str = "/") -> dict[str, dict[str, dict[str, Any]]]:
        return await self.call(name, path, OBJECTS, "GetManagedObjects")

    async def owned(self, name: str) -> bool:
        """Whether a program owns the name. A call without this check might start one."""
        return await self.call(BUS, "/org/freedesktop/DBus", BUS, "NameHasOwner", "s", name)

    async def owner(self, name: str) -> str | None:
        """The unique name of the owner of the name."""
        if not await self.owned(name):
            return None
        return await self.call(BUS, "/org/freedesktop/DBus", BUS, "GetNameOwner", "s", name)

    async def until(
        self, what: str, test: Callable[[], Awaitable[Any]], timeout: float = 20, every: float | None = None
    ) -> Any:
        """Waits until `test` returns a true value. It is called after every signal, and periodically where no signal reports the
        change."""
        last: Any = None
        try:
            async with asyncio.timeout(limit(timeout)):
                while True:
                    self._news.clear()
                    try:
                        last = await test()
                    except DBusError as error:
                        if error.type not in ABSENT:
                            raise
                        last = error
                    else:
                        if last:
                            return last
                    with suppress(TimeoutError):
                        async with asyncio.timeout(every):
                            await self._news.wait()
        except TimeoutError:
            raise TimeoutError(f"{what}: not within {limit(timeout):.0f} s; it is {last}") from None


def read_all(descriptor: int) -> bytes:
    """The content of a file whose descriptor came over the bus."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()
