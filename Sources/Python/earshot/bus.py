"""Calls and signals of the service on the bus."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dbus_fast import BusType, Message, MessageType, Variant
from dbus_fast.aio import MessageBus

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "org.earshot"
ROOT = "/org/earshot"
BUS = "org.freedesktop.DBus"
PROPERTIES = "org.freedesktop.DBus.Properties"

#: Maximum signals that wait for one iteration. A program that is slower reads the state again instead.
QUEUE_LIMIT = 1000
#: Time limit of a call, in seconds. Accept and Reject return when the disk has the verdict.
CALL_TIME = 60.0


class EarshotError(Exception):
    """An error of a call.

    `name` is the D-Bus name of the error (`org.earshot.Error.NotReady`), and the text is a sentence for people.
    """

    def __init__(self, name: str, sentence: str) -> None:
        super().__init__(sentence)
        self.name = name

    @property
    def code(self) -> str:
        """The last part of the name: `NotReady`. `earshot explain` explains it."""
        return self.name.rsplit(".", 1)[-1]


class ServiceGone(EarshotError):
    """The service is not running, or ended during a call."""


#: Errors of the bus for a service that is not there.
_GONE = {
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.DBus.Error.NoReply",
    "org.freedesktop.DBus.Error.Disconnected",
}


def plain(value: Any) -> Any:
    """Returns a value without the variants in it."""
    if isinstance(value, Variant):
        return plain(value.value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


class Signal:
    """A signal of the service: `member` with its arguments, of the object `path`."""

    def __init__(self, message: Message) -> None:
        self.path: str = message.path or ""
        self.interface: str = message.interface or ""
        self.member: str = message.member or ""
        self.arguments: list[Any] = [plain(argument) for argument in message.body]


class Connection:
    """A connection to the bus, from which one service is called."""

    def __init__(self, bus: MessageBus, name: str = NAME) -> None:
        self._bus = bus
        self._name = name
        self._listeners: list[asyncio.Queue[Signal | None]] = []

    @classmethod
    async def open(cls, address: str | None = None, name: str = NAME) -> Connection:
        """Connects to the system bus, or to the bus at an address."""
        bus = MessageBus(bus_address=address, bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
        connection = cls(await bus.connect(), name)
        bus.add_message_handler(connection._receive)
        for rule in (
            f"type='signal',sender='{name}',path_namespace='{ROOT}'",
            f"type='signal',sender='{BUS}',member='NameOwnerChanged',arg0='{name}'",
        ):
            await connection._call(BUS, "/org/freedesktop/DBus", BUS, "AddMatch", "s", [rule])
        return connection

    def close(self) -> None:
        """Closes the connection, and ends all iterations."""
        for queue in self._listeners:
            self._put(queue, None)
        self._bus.disconnect()

    async def call(self, path: str, interface: str, method: str, signature: str = "", *arguments: Any) -> list[Any]:
        """Calls a method of the service, and returns the results without variants."""
        reply = await self._call(self._name, path, interface, method, signature, list(arguments))
        return [plain(value) for value in reply.body]

    async def read_file(self, path: str, interface: str, method: str) -> bytes:
        """Calls a method that returns one file, and returns its content."""
        reply = await self._call(self._name, path, interface, method, "", [])
        try:
            with os.fdopen(os.dup(reply.unix_fds[reply.body[0]]), "rb") as file:
                return file.read()
        finally:
            for descriptor in reply.unix_fds:
                os.close(descriptor)

    async def properties(self, path: str, interface: str) -> dict[str, Any]:
        """Reads all properties that this program may read."""
        (values,) = await self.call(path, PROPERTIES, "GetAll", "s", interface)
        result: dict[str, Any] = values
        return result

    async def objects(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Reads all objects, by path and interface."""
        (found,) = await self.call(ROOT, "org.freedesktop.DBus.ObjectManager", "GetManagedObjects")
        result: dict[str, dict[str, dict[str, Any]]] = found
        return result

    async def watch(self) -> None:
        """Asks the service for the signals about objects that are for the group."""
        await self.call(ROOT, "org.earshot.Manager1", "Watch")

    @contextmanager
    def listen(self) -> Iterator[asyncio.Queue[Signal | None]]:
        """Yields a queue with all signals from now on; None ends it.

        If a program takes them more slowly than they arrive, a signal with the member `Missed` replaces those that
        wait.
        """
        queue: asyncio.Queue[Signal | None] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            yield queue
        finally:
            self._listeners.remove(queue)

    async def _call(
        self, name: str, path: str, interface: str, method: str, signature: str, arguments: list[Any]
    ) -> Message:
        message = Message(
            destination=name, path=path, interface=interface, member=method, signature=signature, body=arguments
        )
        try:
            reply = await asyncio.wait_for(self._bus.call(message), CALL_TIME)
        except TimeoutError:
            raise EarshotError("org.earshot.Error.Timeout", f"{method} was not answered in time.") from None
        except EOFError:
            raise ServiceGone("org.freedesktop.DBus.Error.Disconnected", "The connection to the bus is lost.") from None
        if reply is None:
            raise ServiceGone("org.freedesktop.DBus.Error.Disconnected", "The connection to the bus is lost.")
        if reply.message_type is MessageType.ERROR:
            error = reply.error_name or "org.freedesktop.DBus.Error.Failed"
            sentence = str(reply.body[0]) if reply.body else error
            raise (ServiceGone if error in _GONE else EarshotError)(error, sentence)
        return reply

    def _receive(self, message: Message) -> None:
        # The match rules select the signals. The owner's name is not compared, because the bus does that.
        if message.message_type is not MessageType.SIGNAL:
            return
        for queue in self._listeners:
            self._put(queue, Signal(message))

    @staticmethod
    def _put(queue: asyncio.Queue[Signal | None], signal: Signal | None) -> None:
        if signal is not None and queue.qsize() >= QUEUE_LIMIT:
            while not queue.empty():
                queue.get_nowait()
            signal = Signal(Message(path=ROOT, interface=NAME, member="Missed", message_type=MessageType.SIGNAL))
        queue.put_nowait(signal)


async def pages(
    connection: Connection,
    is_news: Callable[[Signal], bool],
    fetch: Callable[[], AsyncIterator[Any]],
) -> AsyncIterator[Any]:
    """Yields what `fetch` finds now, and again after each signal that is news.

    While the service does not run, the iteration waits for it.
    """
    with connection.listen() as queue:
        while True:
            try:
                async for item in fetch():
                    yield item
            except ServiceGone:
                pass
            while True:
                signal = await queue.get()
                if signal is None:
                    return
                if signal.member == "Missed" or _is_back(signal) or is_news(signal):
                    break


def _is_back(signal: Signal) -> bool:
    """Whether the service has started."""
    return signal.member == "NameOwnerChanged" and signal.interface == BUS and bool(signal.arguments[2])
