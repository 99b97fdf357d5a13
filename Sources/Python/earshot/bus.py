"""Calls and signals of the service on the bus."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dbus_fast import AuthError, BusType, Message, MessageType, Variant
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


_DISCONNECTED = "org.freedesktop.DBus.Error.Disconnected"
#: Errors of the bus for a service that is not there.
_GONE = {
    "org.freedesktop.DBus.Error.ServiceUnknown",
    "org.freedesktop.DBus.Error.NameHasNoOwner",
    "org.freedesktop.DBus.Error.NoReply",
    _DISCONNECTED,
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
        self.sender: str = message.sender or ""
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
        self._is_closed = False
        self._end = asyncio.ensure_future(self._await_end())
        #: Whether the bus ended the connection.
        self.is_lost = False

    @classmethod
    async def open(cls, address: str | None = None, name: str = NAME) -> Connection:
        """Connects to the system bus, or to the bus at an address.

        Raises: ServiceGone if the bus cannot be reached or refuses this program; EarshotError if the bus refuses to
        pass the signals of the service on.
        """
        try:
            bus = MessageBus(bus_address=address, bus_type=BusType.SYSTEM, negotiate_unix_fd=True)
            connection = cls(await bus.connect(), name)
        except (AuthError, EOFError, OSError) as error:
            raise ServiceGone(_DISCONNECTED, f"The bus cannot be reached: {error}") from None
        try:
            bus.add_message_handler(connection._receive)
            for rule in (
                f"type='signal',sender='{name}',path_namespace='{ROOT}'",
                f"type='signal',sender='{BUS}',member='NameOwnerChanged',arg0='{name}'",
            ):
                await connection._call(BUS, "/org/freedesktop/DBus", BUS, "AddMatch", "s", [rule])
        except BaseException:
            # Nobody else closes it, also if the caller's task is cancelled meanwhile.
            connection.close()
            raise
        return connection

    def close(self) -> None:
        """Closes the connection, and ends all iterations."""
        self._is_closed = True
        self._end_iterations()
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
        """Yields a queue with all signals from now on; None ends it, also if the connection is lost already.

        If a program takes them more slowly than they arrive, a signal with the member `Missed` replaces those that
        wait.
        """
        queue: asyncio.Queue[Signal | None] = asyncio.Queue()
        self._listeners.append(queue)
        if self.is_lost:
            self._put(queue, None)
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
        if self._end.done():
            raise _lost()
        call = asyncio.ensure_future(self._bus.call(message))
        try:
            # Not every version of the library ends the calls of a connection that is lost.
            await asyncio.wait({call, self._end}, timeout=CALL_TIME, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and not self._end.done():
                raise EarshotError("org.earshot.Error.Timeout", f"{method} was not answered in time.")
            reply = call.result() if call.done() else None
        except (EOFError, OSError):
            raise _lost() from None
        finally:
            call.cancel()
        if reply is None:
            raise _lost()
        if reply.message_type is MessageType.ERROR:
            error = reply.error_name or "org.freedesktop.DBus.Error.Failed"
            sentence = str(reply.body[0]) if reply.body else error
            raise (ServiceGone if error in _GONE else EarshotError)(error, sentence)
        return reply

    def _receive(self, message: Message) -> None:
        # A program may address a signal of any content to this connection. It has no effect but that the state is read
        # again, so the sender is compared only where a signal of the bus itself is meant.
        if message.message_type is not MessageType.SIGNAL:
            return
        for queue in self._listeners:
            self._put(queue, Signal(message))

    async def _await_end(self) -> None:
        # The reason of the end is an exception of some class of the library.
        with suppress(Exception):
            await self._bus.wait_for_disconnect()
        if not self._is_closed:
            self.is_lost = True
            self._end_iterations()

    def _end_iterations(self) -> None:
        for queue in self._listeners:
            self._put(queue, None)

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
    restarted: Callable[[], None] = lambda: None,
) -> AsyncIterator[Any]:
    """Yields what `fetch` finds now, and again after each signal that is news.

    `restarted` is called before `fetch` if the service has started meanwhile.

    While the service does not run, the iteration waits for it. It ends when the connection is closed.

    Raises: ServiceGone if the connection to the bus is lost.
    """
    with connection.listen() as queue:
        while True:
            try:
                async for item in fetch():
                    yield item
            except ServiceGone:
                if connection.is_lost:
                    raise
            while True:
                signal = await queue.get()
                if signal is None:
                    if connection.is_lost:
                        raise _lost()
                    return
                if _is_back(signal):
                    restarted()
                    break
                if signal.member == "Missed" or is_news(signal):
                    break


async def numbered(
    connection: Connection,
    is_news: Callable[[Signal], bool],
    list_after: Callable[[int], AsyncIterator[Any]],
    after: int | None,
) -> AsyncIterator[Any]:
    """Yields messages with a higher number than `after`, and then each new one; None for `after` yields new ones only.

    If the service was not running at the begin, its messages of earlier runs are not new. If its numbers are lower
    after a restart, because its state was erased or its clock was set back, all its messages are.
    """
    last = after
    is_new_run = False

    def restarted() -> None:
        nonlocal is_new_run
        is_new_run = True

    async def fetch() -> AsyncIterator[Any]:
        nonlocal last, is_new_run
        if last is None or is_new_run:
            newest = 0
            async for message in list_after(0):
                newest = message.number
            last = newest if last is None else last if newest >= last else 0
            is_new_run = False
        async for message in list_after(last):
            last = message.number
            yield message

    async for message in pages(connection, is_news, fetch, restarted):
        yield message


def _is_back(signal: Signal) -> bool:
    """Whether the service has started."""
    return signal.sender == BUS and signal.member == "NameOwnerChanged" and bool(signal.arguments[2])


def _lost() -> ServiceGone:
    return ServiceGone(_DISCONNECTED, "The connection to the bus is lost.")
