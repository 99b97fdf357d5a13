"""HCI traffic between the kernel and a controller, read from the HCI monitor with the kernel's timestamps: the times and the data of
the advertising sets."""
from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from harness.limits import limit
from harness.management import bind

_MONITOR, _NO_ADAPTER = 2, 0xFFFF
#: Kinds of packets on the monitor.
_COMMAND, _EVENT = 2, 3
_COMPLETE, _LE_META, _SET_ENDED = 0x0E, 0x3E, 0x12

#: A socket option, and the type of its ancillary data: a `struct timeval`.
_SO_TIMESTAMP = 29
#: Maximum seconds for which the sets are disabled when a scan begins.
SCAN_BEGINS = 0.05


class _Command:
    """The HCI commands that change sets."""

    RESET = 0x0C03
    ADDRESS, PARAMETERS, DATA, ENABLE, REMOVE, CLEAR = 0x2035, 0x2036, 0x2037, 0x2039, 0x203C, 0x203D


@dataclass(frozen=True)
class Shown:
    """A period of one set without changes."""

    handle: int
    #: The properties of LE Set Extended Advertising Parameters: 0x0010 is neither connectable nor scannable.
    properties: int = 0
    #: Interval in milliseconds.
    interval: float = 0
    #: Whether it is sent from `address`, instead of the adapter's own.
    is_random: bool = False
    address: bytes = b""
    data: bytes = b""
    begin: float = 0
    #: End of the period; 0 while it lasts.
    end: float = 0


class SetHistory:
    """The history of one controller's sets; times are in seconds of the wall clock."""

    def __init__(self, adapter: int) -> None:
        self._adapter = adapter
        self._sets: dict[int, Shown] = {}
        self._on: set[int] = set()
        self._asked: dict[int, bytes] = {}
        self.shown: list[Shown] = []
        self._news = asyncio.Event()
        #: The maximum number of simultaneous sets.
        self.most = 0
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._channel = socket.socket(socket.AF_BLUETOOTH, kind, socket.BTPROTO_HCI)
        self._channel.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMP, 1)
        bind(self._channel, _NO_ADAPTER, _MONITOR)
        asyncio.get_running_loop().add_reader(self._channel, self._readable)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._channel)
        self._channel.close()

    def _readable(self) -> None:
        while True:
            try:
                packet, extra, _, _ = self._channel.recvmsg(4096, 64)
            except BlockingIOError:
                return
            seconds, micros = next(struct.unpack("qq", data[:16]) for level, kind, data in extra if kind == _SO_TIMESTAMP)
            kind, adapter, _ = struct.unpack_from("<HHH", packet)
            if adapter == self._adapter and kind in (_COMMAND, _EVENT):
                (self._on_command if kind == _COMMAND else self._on_event)(packet[6:], seconds + micros / 1e6)
                self._news.set()

    def _on_command(self, packet: bytes, _: float) -> None:
        """Handles a command, which takes effect when the controller has reported its completion."""
        self._asked[int.from_bytes(packet[:2], "little")] = packet[3:]

    def _on_event(self, packet: bytes, time: float) -> None:
        code, body = packet[0], packet[2:]
        if code == _COMPLETE:
            opcode = int.from_bytes(body[1:3], "little")
            asked = self._asked.pop(opcode, None)
            if asked is not None and body[3] == 0:
                self._carried_out(opcode, asked, time)
        elif code == _LE_META and body[0] == _SET_ENDED:
            self._off(body[2], time)

    def _carried_out(self, opcode: int, asked: bytes, time: float) -> None:
        match opcode:
            case _Command.PARAMETERS:
                properties, shortest = struct.unpack_from("<H", asked, 1)[0], int.from_bytes(asked[3:6], "little")
                self._change(asked[0], time, properties=properties, interval=shortest * 0.625, is_random=asked[10] == 1)
            case _Command.ADDRESS:
                self._change(asked[0], time, address=asked[1:7][::-1])
            case _Command.DATA:
                self._change(asked[0], time, data=asked[4 : 4 + asked[3]])
            case _Command.ENABLE:
                for place in range(asked[1]):
                    handle = asked[2 + 4 * place]
                    self._begin(handle, time) if asked[0] else self._off(handle, time)
                if not asked[1]:
                    self._all_off(time)
            case _Command.REMOVE:
                self._off(asked[0], time)
                self._sets.pop(asked[0], None)
            case _Command.CLEAR | _Command.RESET:
                self._all_off(time)
                self._sets.clear()

    def _change(self, handle: int, time: float, **what: object) -> None:
        was_on = handle in self._on
        self._off(handle, time)
        self._sets[handle] = replace(self._sets.get(handle, Shown(handle)), **what)
        if was_on:
            self._begin(handle, time)

    def _begin(self, handle: int, time: float) -> None:
        if handle in self._on:
            return
        self._on.add(handle)
        self._sets[handle] = replace(self._sets.get(handle, Shown(handle)), begin=time)
        self.most = max(self.most, len(self._on))

    def _off(self, handle: int, time: float) -> None:
        if handle in self._on:
            self._on.remove(handle)
            self.shown.append(replace(self._sets[handle], end=time))

    def _all_off(self, time: float) -> None:
        for handle in list(self._on):
            self._off(handle, time)

    async def spans(self, is_it: Callable[[bytes], bool]) -> list[Shown]:
        """The periods in which such data was advertised; waits until the last one has ended. When a scan begins the kernel disables all
        sets for some milliseconds, which does not end a period."""
        async with asyncio.timeout(limit(10)):
            while any(is_it(self._sets[handle].data) for handle in self._on):
                self._news.clear()
                await self._news.wait()
        spans: list[Shown] = []
        for shown in self.shown:
            if not is_it(shown.data):
                continue
            if spans and replace(spans[-1], begin=shown.begin, end=shown.end) == shown and shown.begin - spans[-1].end < SCAN_BEGINS:
                spans[-1] = replace(spans[-1], end=shown.end)
            else:
                spans.append(shown)
        return spans


@asynccontextmanager
async def watching(adapter: int) -> AsyncIterator[SetHistory]:
    history = SetHistory(adapter)
    try:
        yield history
    finally:
        history.close()
