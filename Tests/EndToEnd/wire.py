"""Carries a controller from the guest whose radio it is on to another guest, packet by packet, through a port of both virtual machines.

    wire.py radio ADAPTER    takes this adapter, which must be off, away from the kernel
    wire.py host             makes it a controller of this guest's kernel

On the wire each packet of the Host Controller Interface, its kind in the first byte, stands behind its length: two bytes, little-endian.
The radio's guest begins with an empty one, for what is written before the other end is there would be lost."""
from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Iterator

from harness.management import USER, bind

PORT = "/run/wire"
#: Maximum length of a packet of the Host Controller Interface.
LONGEST = 4096


class Port:
    """The end of the wire in this guest."""

    def __init__(self) -> None:
        self.file = os.open(PORT, os.O_RDWR | os.O_CLOEXEC)
        self._received = b""

    def send(self, packet: bytes) -> None:
        """Waits until the other virtual machine is running and has received the packet."""
        rest = len(packet).to_bytes(2, "little") + packet
        while rest:
            rest = rest[os.write(self.file, rest):]

    def receive(self) -> Iterator[bytes]:
        """The received data; nothing where the other virtual machine is not running."""
        self._received += os.read(self.file, LONGEST)
        while len(self._received) >= 2:
            end = 2 + int.from_bytes(self._received[:2], "little")
            if end > 2 + LONGEST:
                raise ValueError(f"a packet of {end - 2} bytes")
            if len(self._received) < end:
                return
            packet, self._received = self._received[2:end], self._received[end:]
            yield packet


def open_radio(adapter: int) -> int:
    channel = socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.BTPROTO_HCI)
    bind(channel, adapter, USER)
    return channel.detach()


def open_host() -> int:
    """Creates a controller of this kernel (`drivers/bluetooth/hci_vhci.c`): the first packet creates it, and the kernel answers with
    its number."""
    file = os.open("/dev/vhci", os.O_RDWR | os.O_CLOEXEC)
    os.write(file, b"\xff\x00")
    answer = os.read(file, LONGEST)
    if len(answer) != 4 or answer[0] != 0xFF:
        raise OSError(f"the kernel makes no controller: {answer.hex()}")
    return file


def carry(port: Port, controller: int) -> None:
    """Forwards packets in both directions, without end."""
    poll = select.poll()
    for file in (port.file, controller):
        poll.register(file, select.POLLIN)
    while True:
        for file, events in poll.poll():
            if file == controller:
                port.send(os.read(controller, LONGEST))
            elif events & select.POLLHUP:
                # Without the other machine the port is still readable, and returns nothing, without end.
                raise OSError("the other virtual machine has gone")
            else:
                for packet in port.receive():
                    os.write(controller, packet)


def main(side: str, *rest: str) -> None:
    port = Port()
    if side == "radio":
        controller = open_radio(int(rest[0]))
        port.send(b"")
    else:
        while next(port.receive(), None) is None:
            time.sleep(0.1)
        controller = open_host()
    carry(port, controller)


if __name__ == "__main__":
    main(*sys.argv[1:])
