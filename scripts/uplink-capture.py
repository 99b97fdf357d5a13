#!/usr/bin/env python3
"""Writes a line for each packet on all interfaces of this network namespace, until the process is ended.

uplink-capture.py FILE    each line: interface, protocol, source, destination, bytes of payload
"""

import socket
import struct
import sys
from pathlib import Path

EVERYTHING = 3  # ETH_P_ALL
IPV4, IPV6 = 0x0800, 0x86DD


def text(address: bytes) -> str:
    """Formats an IP address."""
    return socket.inet_ntop(socket.AF_INET if len(address) == 4 else socket.AF_INET6, address)


def ports(protocol: int, data: bytes, length: int) -> tuple[str, str, str, int]:
    """Name of the protocol, both ports and length of the payload, for the content of an IP packet with this length."""
    if protocol == socket.IPPROTO_TCP and len(data) >= 20:
        source, destination = struct.unpack(">HH", data[:4])
        return "tcp", f":{source}", f":{destination}", length - (data[12] >> 4) * 4
    if protocol == socket.IPPROTO_UDP and len(data) >= 8:
        source, destination = struct.unpack(">HH", data[:4])
        return "udp", f":{source}", f":{destination}", length - 8
    return f"ip{protocol}", "", "", length


def describe(kind: int, data: bytes) -> str:
    """Describes a packet without its link-layer header."""
    if kind == IPV4 and len(data) >= 20:
        head = (data[0] & 0x0F) * 4
        (length,) = struct.unpack(">H", data[2:4])
        name, source, destination, payload = ports(data[9], data[head:], length - head)
        return f"{name} {text(data[12:16])}{source} {text(data[16:20])}{destination} {payload}"
    if kind == IPV6 and len(data) >= 40:
        (length,) = struct.unpack(">H", data[4:6])
        name, source, destination, payload = ports(data[6], data[40:], length)
        return f"{name} [{text(data[8:24])}]{source} [{text(data[24:40])}]{destination} {payload}"
    return f"link{kind:04x} - - {len(data)}"


def main() -> None:
    """Captures until the process is ended."""
    with (
        Path(sys.argv[1]).open("w", encoding="utf-8", buffering=1) as file,
        # A datagram socket has packets without the link-layer header.
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(EVERYTHING)) as capture,
    ):
        capture.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        print("listening", flush=True)
        while True:
            data, (interface, kind, direction, *_) = capture.recvfrom(65536)
            # Each packet of the loopback interface is seen twice: when it is sent, and when it arrives.
            if direction != socket.PACKET_OUTGOING or interface != "lo":
                file.write(f"{interface} {describe(kind, data)}\n")


main()
