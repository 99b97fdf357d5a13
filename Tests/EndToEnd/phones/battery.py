"""A phone that protects its battery level, as iPhones do: it refuses to let the level be read without encryption. Its user leaves a
request to pair open, declines it, or agrees."""
from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum

from bumble.att import ATT_INSUFFICIENT_AUTHENTICATION_ERROR, ATT_Error
from bumble.core import ProtocolError, UUID
from bumble.core import TimeoutError as BumbleTimeoutError
from bumble.device import Connection
from bumble.gatt import Characteristic, CharacteristicValue, Service
from bumble.hci import HCI_Error
from bumble.pairing import PairingConfig, PairingDelegate

from phones.phone import Phone

BATTERY_SERVICE = UUID.from_16_bits(0x180F)
BATTERY_LEVEL = UUID.from_16_bits(0x2A19)
LEVEL = 87


class Person(Enum):
    """The reaction of the user to a request to pair."""

    SILENT = "leaves a request to pair open"
    DECLINES = "declines a request to pair"
    AGREES = "accepts a request to pair"


class _Decision(PairingDelegate):
    def __init__(self, agrees: bool) -> None:
        super().__init__()
        self.agrees = agrees

    async def confirm(self, auto: bool = False) -> bool:
        return self.agrees


class Battery:
    """The Battery Service of a phone that is switched on."""

    def __init__(self, phone: Phone, person: Person) -> None:
        self.person = person
        #: Number of reads of the level, and number of refused reads.
        self.reads = self.refusals = 0
        #: Number of requests to pair from the other side.
        self.requests = 0
        self._works: set[asyncio.Task[None]] = set()
        device = phone.device
        assert device is not None
        level = Characteristic(
            BATTERY_LEVEL, Characteristic.Properties.READ | Characteristic.Properties.NOTIFY, Characteristic.Permissions.READABLE,
            CharacteristicValue(read=self._read),
        )
        device.add_service(Service(BATTERY_SERVICE, [level]))
        device.pairing_config_factory = lambda _: PairingConfig(delegate=_Decision(person is Person.AGREES))
        device.on(device.EVENT_CONNECTION, self._connected)

    def _read(self, connection: Connection) -> bytes:
        self.reads += 1
        if not connection.is_encrypted:
            self.refusals += 1
            raise ATT_Error(error_code=ATT_INSUFFICIENT_AUTHENTICATION_ERROR)
        return bytes([LEVEL])

    def _connected(self, connection: Connection) -> None:
        connection.on(connection.EVENT_SECURITY_REQUEST, lambda _: self._asked(connection))

    def _asked(self, connection: Connection) -> None:
        self.requests += 1
        if self.person is not Person.SILENT:
            work = asyncio.ensure_future(self._pair(connection))
            self._works.add(work)
            work.add_done_callback(self._works.discard)

    async def _pair(self, connection: Connection) -> None:
        """Begins to pair, which asks the user."""
        with suppress(ProtocolError, HCI_Error, BumbleTimeoutError, asyncio.CancelledError):
            await connection.pair()

    def check(self) -> None:
        """Checks that the level was not read and that there was no request to pair."""
        assert (self.reads, self.requests) == (0, 0), f"the level was read {self.reads} times, and the phone was asked to pair {self.requests} times"
