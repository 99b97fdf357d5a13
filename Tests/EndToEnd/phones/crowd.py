"""Several phones that are connected to the kiosk at one time.

A virtual controller hands on a packet under the sender's number of the link (`phones/second.py`), so that the second phone's
link to the kiosk has to be its second, the third phone's its third, and so on. Each phone therefore has links of its own before,
to partners that serve nothing; and the phones connect to the kiosk in the order in which they stand here."""
from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bumble.device import AdvertisingType
from bumble.hci import OwnAddressType

from harness.limits import limit
from phones.phone import Phone


class Crowd:
    """The phones besides the first one, which has no partner."""

    def __init__(self, phones: Sequence[int], partners: Sequence[int]) -> None:
        """phones: their adapters.
        partners: as many adapters, to which they have their earlier links."""
        self.phones = [Phone(adapter, f"F1:F1:F2:F3:F5:{number:02X}") for number, adapter in enumerate(phones)]
        self._partners = [Phone(adapter, f"F2:F1:F2:F3:F5:{number:02X}") for number, adapter in enumerate(partners)]

    @property
    def adapters(self) -> list[int]:
        return [phone.adapter for phone in (*self.phones, *self._partners)]

    async def switch_on(self) -> None:
        """Takes all the controllers, which must be powered off."""
        for phone in (*self.phones, *self._partners):
            await phone.switch_on()
        for number, phone in enumerate(self.phones):
            for partner in self._partners[: number + 1]:
                await _join(phone, partner)

    async def switch_off(self) -> None:
        for phone in self.phones:
            await phone.hang_up()
        for phone in (*self.phones, *self._partners):
            await phone.switch_off()


async def _join(phone: Phone, partner: Phone) -> None:
    """Makes a link between two phones; both have reported it when this returns."""
    assert partner.device is not None
    joined = asyncio.get_running_loop().create_future()
    partner.device.once("connection", lambda connection: joined.done() or joined.set_result(connection))
    await partner.device.start_advertising(
        advertising_type=AdvertisingType.UNDIRECTED_CONNECTABLE_SCANNABLE, own_address_type=OwnAddressType.RANDOM
    )
    await phone.connect(partner.address)
    async with asyncio.timeout(limit(10)):
        await joined
