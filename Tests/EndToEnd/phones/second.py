"""A phone whose link to the kiosk is the second one at both ends.

A virtual controller (btvirt) hands a packet to the other one under the sender's number of the link, so a link works only where
both ends number it alike; each takes the lowest number that is free. The links of the visitors' phone are the first at both
ends, for they come and go one at a time. A further phone therefore has a first link of its own, to a partner that serves nothing,
and connects to the kiosk while the visitors' phone is connected."""
from __future__ import annotations

from bumble.device import AdvertisingType
from bumble.hci import OwnAddressType

from phones.phone import Link, Phone


class SecondPhone(Phone):
    def __init__(self, adapter: int, partner: int) -> None:
        """partner: the adapter at the other end of its first link."""
        super().__init__(adapter, "F1:F1:F2:F3:F4:F6")
        self.partner = Phone(partner, "F2:F1:F2:F3:F4:F7")
        self._first: Link | None = None

    @property
    def is_on(self) -> bool:
        return super().is_on and self.partner.is_on

    async def switch_on(self) -> None:
        """Takes both controllers, which must be powered off."""
        await super().switch_on()
        await self.partner.switch_on()
        assert self.partner.device is not None
        await self.partner.device.start_advertising(
            advertising_type=AdvertisingType.UNDIRECTED_CONNECTABLE_SCANNABLE, own_address_type=OwnAddressType.RANDOM
        )
        self._first = await self.connect(self.partner.address)

    async def switch_off(self) -> None:
        self._first = None
        await super().switch_off()
        await self.partner.switch_off()
