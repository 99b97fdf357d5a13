"""The environment of every test: a machine in its normal state, a kiosk that waits, a phone that is on."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from harness.bus import Bus
from harness.limits import limit
from harness.machine import FOURTH, KIOSK, LAST_PARTNER, OTHER, PARTNER, PHONE, SECOND, THIRD, Machine
from harness.service import Service, Settings
from harness.tenant import Tenant
from harness.turns import Turns
from phones.crowd import Crowd
from phones.phone import Phone
from phones.second import SecondPhone

SETTINGS: Settings = {
    "Radio": {"Adapter": f"hci{KIOSK}"},
    "Verifier": {"Enabled": "yes", "Dialects": "0.5 0.4"},
    "Log": {"Level": "debug"},
}


def settings(**verifier: str) -> Settings:
    """The usual settings, except these of the verifier."""
    return {**SETTINGS, "Verifier": {**SETTINGS["Verifier"], **verifier}}


class Stage:
    """The state that all tests of a guest share."""

    def __init__(
        self, bus: Bus, machine: Machine, phone: Phone, out: Path, native: Path, turns: Turns | None = None,
    ) -> None:
        """
        out: where evidence goes.
        native: where the programs in C are.
        turns: with another guest on this machine.
        """
        self.bus = bus
        self.machine = machine
        self.phone = phone
        self.out = out
        self.native = native
        self.turns = turns
        self.kiosk = Service.installed(bus)
        #: The peer of the second service, or of a second wallet.
        self.other_phone = SecondPhone(OTHER, PARTNER)
        self.tenant = Tenant(machine, self.other_phone)
        self.measured: list[str] = []

    def measure(self, text: str) -> None:
        """Adds a measured value to the table."""
        self.measured.append(text)

    async def set_radio(self) -> None:
        """Restores the controllers, bluetoothd and the phone."""
        if not await self.machine.powered(KIOSK):
            await self.machine.start_controllers()
            await self.machine.start_bluetoothd()
            await self.machine.until_powered(KIOSK)
        if not self.phone.is_on:
            await self.phone.switch_off()
            await self.machine.free_adapter(PHONE)
            await self.phone.switch_on()

    async def set(self, wanted: Settings = SETTINGS) -> str:
        """Restores the normal state; returns the text of the QR code."""
        await self.set_radio()
        await self.kiosk.start(wanted)
        self.kiosk.drop_received()
        return await self.kiosk.invitation()

    # The second service.

    async def invite_tenant(self, wanted: bool) -> None:
        """Starts the second service on the kiosk's adapter, or stops it."""
        if wanted and not self.tenant.is_here:
            async with asyncio.timeout(limit(60)):
                await self.set_radio()
                await self._switch_on_other_phone()
                await self.tenant.come(self.phone)
        elif not wanted:
            await self._let_tenant_go()

    async def _switch_on_other_phone(self) -> None:
        for adapter in (OTHER, PARTNER):
            await self.machine.free_adapter(adapter)
        await self.other_phone.switch_on()

    async def _let_tenant_go(self) -> None:
        await self.tenant.go()
        await self.other_phone.switch_off()

    @asynccontextmanager
    async def second_phone(self) -> AsyncIterator[SecondPhone]:
        """A second phone, which replaces the second service meanwhile."""
        await self._let_tenant_go()
        try:
            await self._switch_on_other_phone()
            yield self.other_phone
        finally:
            await self.other_phone.switch_off()

    @asynccontextmanager
    async def crowd(self, count: int) -> AsyncIterator[list[Phone]]:
        """This number of phones, at most four, in the order in which they connect to the kiosk. They replace the second service
        meanwhile."""
        await self._let_tenant_go()
        await self.set_radio()
        crowd = Crowd([OTHER, THIRD, FOURTH][: count - 1], [PARTNER, SECOND, LAST_PARTNER][: count - 1])
        try:
            for adapter in crowd.adapters:
                await self.machine.free_adapter(adapter)
            await crowd.switch_on()
            yield [self.phone, *crowd.phones]
        finally:
            await crowd.switch_off()
            await self.phone.hang_up()

    def check_tenant(self) -> None:
        """Checks that the second service, if it runs, was not affected."""
        if self.tenant.is_here:
            self.tenant.check()

    async def leave(self) -> None:
        """Returns all controllers to the kernel."""
        await self._let_tenant_go()
        await self.phone.switch_off()

    async def reset(self) -> None:
        """Restores the normal state after a failure, so that the next test is not affected."""
        async with asyncio.timeout(limit(60)):
            await self._let_tenant_go()
            await self.kiosk.restore()
            await self.kiosk.stop()
            await self.phone.switch_off()
            await self.machine.stop_bluetoothd()
            await self.machine.remove_controllers()
