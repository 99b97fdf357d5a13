"""A phone with a PBLEC app: its messages, and every packet that it receives. It shares no code with the service."""
from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bumble.hci import (
    Address, HCI_LE_Set_Advertising_Data_Command, HCI_LE_Set_Advertising_Enable_Command,
    HCI_LE_Set_Advertising_Parameters_Command, HCI_LE_Set_Extended_Scan_Enable_Command,
    HCI_LE_Set_Extended_Scan_Parameters_Command, HCI_LE_Set_Random_Address_Command, OwnAddressType,
)

from phones.phone import Phone
from phones.tuvali import structures

FLAGS, SHORTENED_NAME, COMPLETE_NAME, MANUFACTURER = 0x01, 0x08, 0x09, 0xFF
#: The flags of an iPhone's advertisements.
IPHONE = 0x1A
MARK = "~"
#: Bytes of text that fit beside the flags, seconds for which a message is broadcast, and seconds between messages.
MOST, ON_AIR, APART = 24, 4.0, 6.0
#: Company, type, length and UUID of the notify beacon.
BEACON = bytes.fromhex("4c000215" "40b74e09f1e9499287ad77e4882eecf3")


def message(digit: int, text: str, flags: int = IPHONE) -> bytes:
    """The advertising data of a message."""
    name = f"{MARK}{digit}{text}".encode()
    if not 0 <= digit <= 9 or len(name) > 2 + MOST:
        raise ValueError(f"no message: {digit} {text!r}")
    return bytes([2, FLAGS, flags, 1 + len(name), COMPLETE_NAME]) + name


def read(data: bytes) -> tuple[int, str] | None:
    """The digit and the text of a complete message; the text of an end packet is empty."""
    names = [body for kind, body in structures(data) if kind == COMPLETE_NAME]
    if not names:
        return None
    try:
        name = names[0].decode()
    except UnicodeDecodeError:
        return None
    if len(name) < 2 or name[0] != MARK or name[1] not in "0123456789":
        return None
    return int(name[1]), name[2:]


def beacon(major: int, minor: int, power: int = -59, flags: int = IPHONE) -> bytes:
    """The advertising data of a beacon."""
    body = BEACON + major.to_bytes(2, "big") + minor.to_bytes(2, "big") + power.to_bytes(1, "big", signed=True)
    return bytes([2, FLAGS, flags, 1 + len(body), MANUFACTURER]) + body


@dataclass(frozen=True)
class Packet:
    """A received packet."""

    #: Seconds of the monotonic clock.
    time: float
    address: Address
    #: Event type as the controller reports it: 0x0010 is neither connectable nor scannable, 0x0013 is both; legacy packets.
    properties: int
    data: bytes


class FeedPhone(Phone):
    """A phone that receives whenever it is on and does not send.

    A virtual controller reports an advertisement only when the advertising or the scan begins. The phone therefore
    restarts its scan and its advertising again and again: each restart is a packet."""

    #: Seconds between two packets, and between two scans.
    PACE, LOOK = 0.1, 0.08

    def __init__(self, adapter: int, address: str) -> None:
        super().__init__(adapter, address)
        self.heard: list[Packet] = []
        self._listening: asyncio.Task[None] | None = None

    async def switch_off(self) -> None:
        await self.stop_listening()
        await super().switch_off()

    # Receiving.

    async def listen(self) -> None:
        """Receives every packet from now on, by passive scanning."""
        assert self.device is not None
        self.device.host.on("advertising_report", self._on_report)
        await self.device.send_sync_command(
            HCI_LE_Set_Extended_Scan_Parameters_Command(
                own_address_type=OwnAddressType.RANDOM, scanning_filter_policy=0, scanning_phys=1,
                scan_types=[HCI_LE_Set_Extended_Scan_Parameters_Command.PASSIVE_SCANNING],
                scan_intervals=[0x60], scan_windows=[0x60],
            )
        )
        self._listening = asyncio.ensure_future(self._look())

    async def stop_listening(self) -> None:
        """Stops after the present scan: a cancelled command would still be answered."""
        listening, self._listening = self._listening, None
        if listening is not None and self.is_on:
            await listening

    async def _look(self) -> None:
        own = self._listening
        while self._listening is own and own is not None:
            await self._scan(True)
            await asyncio.sleep(self.LOOK)
            await self._scan(False)

    async def _scan(self, on: bool) -> None:
        assert self.device is not None
        await self.device.send_sync_command(
            HCI_LE_Set_Extended_Scan_Enable_Command(enable=on, filter_duplicates=0, duration=0, period=0)
        )

    def _on_report(self, report) -> None:
        self.heard.append(Packet(time.monotonic(), report.address, report.event_type, bytes(report.data)))

    # Sending.

    async def take(self, address: Address) -> None:
        """Uses this address from the next packet on."""
        assert self.device is not None
        await self.device.send_sync_command(HCI_LE_Set_Random_Address_Command(random_address=address))
        self.address = address

    async def prepare(self, data: bytes) -> None:
        """Sets these bytes as advertising data; a phone's own packets are connectable."""
        assert self.device is not None
        await self.device.send_sync_command(
            HCI_LE_Set_Advertising_Parameters_Command(
                advertising_interval_min=0xA0, advertising_interval_max=0xA0, advertising_type=0,
                own_address_type=OwnAddressType.RANDOM, peer_address_type=0, peer_address=Address("00:00:00:00:00:00"),
                advertising_channel_map=7, advertising_filter_policy=0,
            )
        )
        await self.device.send_sync_command(HCI_LE_Set_Advertising_Data_Command(advertising_data=data))

    async def air(self, seconds: float) -> None:
        """Advertises the prepared data for this time."""
        assert self.device is not None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for enabled in (1, 0):
                await self.device.send_sync_command(HCI_LE_Set_Advertising_Enable_Command(advertising_enable=enabled))
            await asyncio.sleep(self.PACE)
