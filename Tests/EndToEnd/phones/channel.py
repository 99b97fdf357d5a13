"""Exclusive access to a controller: the kernel's HCI user channel, as a Bumble transport.

Bumble's own transport busy-loops when the controller is removed, and drops packets that do not fit into the socket."""
from __future__ import annotations

import asyncio
import collections
import socket
import struct
import time
from collections.abc import Iterator

from bumble.transport.common import ParserSource, Transport

from harness.management import USER, bind

#: Bytes that may wait in the socket, including the kernel's overhead per packet. Only root may set so many.
ROOM = 16 << 20
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
#: The first byte of an HCI packet that carries data of a link.
_ACL = 0x02


def _times(control: list[tuple[int, int, bytes]]) -> Iterator[float]:
    for level, kind, value in control:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIMESPEC.unpack(value)
            yield seconds + nanoseconds / 1e9


class _Source(ParserSource):
    def __init__(self, channel: socket.socket) -> None:
        super().__init__()
        self.channel = channel
        self.data_packets = 0
        #: When the kernel received the packet that is being delivered, in seconds since 1970.
        self.arrived = time.time()
        channel.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        asyncio.get_running_loop().add_reader(channel, self._readable)

    def _readable(self) -> None:
        try:
            packet, control, _, _ = self.channel.recvmsg(4096, socket.CMSG_SPACE(_TIMESPEC.size))
        except BlockingIOError:
            return
        except OSError:
            packet, control = b"", []
        if packet:
            self.data_packets += packet[0] == _ACL
            self.arrived = next(_times(control), self.arrived)
            self.parser.feed_data(packet)
        else:
            self.close()
            self.on_transport_lost()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.channel)


class _Sink:
    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        self.packets: collections.deque[bytes] = collections.deque()
        self.data_packets = 0

    def on_packet(self, packet: bytes) -> None:
        self.data_packets += packet[0] == _ACL
        self.packets.append(packet)
        if len(self.packets) == 1:
            self._send()

    def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while self.packets:
            try:
                self.channel.send(self.packets[0])
            except BlockingIOError:
                loop.add_writer(self.channel, self._send)
                return
            except OSError:
                # The controller was removed, which the source reports.
                self.packets.clear()
                break
            self.packets.popleft()
        loop.remove_writer(self.channel)

    def close(self) -> None:
        asyncio.get_running_loop().remove_writer(self.channel)


class HCIUserChannel(Transport):
    """Takes the adapter from the kernel until it is closed. It must be powered off."""

    def __init__(self, adapter: int) -> None:
        self.channel = socket.socket(
            socket.AF_BLUETOOTH, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, socket.BTPROTO_HCI
        )
        # The kernel drops packets and events that do not fit: while Bumble is slower than the sender, a file would lose pieces, or a
        # link would block.
        self.channel.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, ROOM)
        try:
            bind(self.channel, adapter, USER)
        except OSError:
            self.channel.close()
            raise
        super().__init__(_Source(self.channel), _Sink(self.channel))

    @property
    def arrived(self) -> float:
        """When the kernel received the packet that is being delivered, in seconds since 1970; this process may be later."""
        return self.source.arrived

    @property
    def data_packets(self) -> int:
        """Number of data packets over links, both ways."""
        return self.source.data_packets + self.sink.data_packets

    async def close(self) -> None:
        self.source.close()
        self.sink.close()
        self.channel.close()
