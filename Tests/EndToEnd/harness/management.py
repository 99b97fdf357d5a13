"""The kernel's Bluetooth management interface, as another program on the machine uses it."""
from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

from harness.limits import limit

#: Channels of an HCI socket.
USER, CONTROL = 1, 3
_NO_ADAPTER = 0xFFFF

#: The HCI command LE Set Extended Scan Enable. Core 5.4 Vol 4 Part E 7.8.65.
_ENABLE_SCAN = 0x2042
_RAW = 0
_COMMAND_PACKET = 1

_GET_PHY, _SET_PHY, _READ_DEFAULTS, _SET_DEFAULTS = 0x44, 0x45, 0x4B, 0x4C
_READ_MONITORS = 0x51
_COMPLETE, _STATUS = 0x0001, 0x0002
#: Parameters of Default System Configuration: shortest and longest interval (1.25 ms), latency, supervision timeout (10 ms).
LINK_PARAMETERS = (0x17, 0x18, 0x19, 0x1A)
#: Ioctls of an HCI socket: take an adapter down, and list its links.
HCIDEVDOWN, HCIGETCONNLIST = 0x400448CA, 0x800448D4
#: LE 2M, both directions.
LE_2M = 0x1800


def bind(channel: socket.socket, adapter: int, number: int) -> None:
    """Binds an HCI socket to a channel, which Python's socket module cannot name."""
    libc = ctypes.CDLL(None, use_errno=True)
    address = struct.pack("<HHH", socket.AF_BLUETOOTH, adapter, number)
    if libc.bind(channel.fileno(), address, len(address)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"hci{adapter}: {os.strerror(error)}")


def take_down(adapter: int) -> None:
    """Takes an adapter down. Raises `OSError` where it is not there, or belongs to a user channel."""
    with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.BTPROTO_HCI) as channel:
        fcntl.ioctl(channel, HCIDEVDOWN, adapter)


def stop_scan(adapter: int) -> None:
    """Switches LE scanning off in the controller by a raw HCI command. bluetoothd and the kernel still consider the discovery as running;
    the kernel cancels the end of its scan when it sees the answer."""
    with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.BTPROTO_HCI) as channel:
        bind(channel, adapter, _RAW)
        parameters = bytes(6)  # off, no filter, no duration, no period
        channel.send(struct.pack("<BHB", _COMMAND_PACKET, _ENABLE_SCAN, len(parameters)) + parameters)


def are_central(adapter: int) -> list[bool]:
    """For each open link of an adapter, whether the adapter's end is the central.

    Linux 6.1 can keep a link that has ended beside a later one to which the controller gave its handle ("failed to register connection
    device" in the journal): the later one is listed last, and counts."""
    most, up, central = 32, 1, 1
    # Handle, address, type, whether it is outgoing, state and mode of the link.
    entry = struct.Struct("<H6sBBHI")
    request = bytearray(struct.pack("<HH", adapter, most) + bytes(most * entry.size))
    with socket.socket(socket.AF_BLUETOOTH, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.BTPROTO_HCI) as channel:
        fcntl.ioctl(channel, HCIGETCONNLIST, request)
    count = int.from_bytes(request[2:4], "little")
    found = [entry.unpack_from(request, 4 + number * entry.size) for number in range(count)]
    return list({handle: bool(mode & central) for handle, *_, state, mode in found if state == up}.values())


class Refused(Exception):
    """An error with the kernel's status."""


def _ask(opcode: int, adapter: int, parameters: bytes = b"") -> bytes:
    """Carries out one command on a socket of its own."""
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_BLUETOOTH, kind, socket.BTPROTO_HCI) as channel:
        bind(channel, _NO_ADAPTER, CONTROL)
        channel.settimeout(limit(10))
        channel.send(struct.pack("<HHH", opcode, adapter, len(parameters)) + parameters)
        while True:
            packet = channel.recv(4096)
            code, index, _ = struct.unpack_from("<HHH", packet)
            if index != adapter or code not in (_COMPLETE, _STATUS):
                continue
            answered, status = struct.unpack_from("<HB", packet, 6)
            if answered == opcode:
                if status != 0:
                    raise Refused(f"command 0x{opcode:02x}: status {status}")
                return packet[9:]


def link_defaults(adapter: int) -> tuple[int, ...]:
    """The parameters of new links of the adapter, one number for each of `LINK_PARAMETERS`."""
    found, rest = {}, _ask(_READ_DEFAULTS, adapter)
    while rest:
        number, length = struct.unpack_from("<HB", rest)
        found[number], rest = int.from_bytes(rest[3 : 3 + length], "little"), rest[3 + length :]
    return tuple(found[number] for number in LINK_PARAMETERS)


def set_link_defaults(adapter: int, *values: int) -> None:
    pairs = zip(LINK_PARAMETERS, values, strict=True)
    _ask(_SET_DEFAULTS, adapter, b"".join(struct.pack("<HBH", number, 2, value) for number, value in pairs))


def monitors(adapter: int) -> list[int]:
    """The handles of the kernel's advertisement monitors, of all programs."""
    *_, count = struct.unpack_from("<IIHBH", found := _ask(_READ_MONITORS, adapter))
    return list(struct.unpack_from(f"<{count}H", found, 13))


def selected_phys(adapter: int) -> int:
    """A bit for each PHY and direction that new links may use."""
    return struct.unpack("<III", _ask(_GET_PHY, adapter))[2]


def select_phys(adapter: int, phys: int) -> None:
    _ask(_SET_PHY, adapter, struct.pack("<I", phys))
