"""What every test finds: a machine in order, a kiosk that waits, a phone that is on."""
from __future__ import annotations

import asyncio
from pathlib import Path

from harness.bus import Bus
from harness.machine import KIOSK, PHONE, Machine
from harness.service import Service, Settings
from phones.phone import Phone

SETTINGS: Settings = {
    "Radio": {"Adapter": f"hci{KIOSK}"},
    "Verifier": {"Enabled": "yes", "Dialects": "0.5 0.4"},
    "Log": {"Level": "debug"},
}


def settings(**verifier: str) -> Settings:
    """The usual settings with other ones of the verifier."""
    return {**SETTINGS, "Verifier": {**SETTINGS["Verifier"], **verifier}}


class Stage:
    """Shared by all tests of a guest."""

    def __init__(self, bus: Bus, machine: Machine, phone: Phone, out: Path, native: Path) -> None:
        """
        out: where evidence goes.
        native: where the programs in C are.
        """
        self.bus = bus
        self.machine = machine
        self.phone = phone
        self.out = out
        self.native = native
        self.kiosk = Service(bus, "org.earshot", "earshotd.service", Path("/etc/earshot/earshot.conf.d/trial.conf"))
        self.measured: list[str] = []

    def measure(self, text: str) -> None:
        """Puts a figure into the table."""
        self.measured.append(text)

    async def set(self, wanted: Settings = SETTINGS) -> str:
        """Brings everything into the usual order, whatever was before; the text of the QR code."""
        if not await self.machine.powered(KIOSK):
            await self.machine.start_controllers()
            await self.machine.start_bluetoothd()
            await self.machine.until_powered(KIOSK)
        if not self.phone.is_on:
            await self.phone.switch_off()
            await self.machine.free_for_phone()
            await self.phone.switch_on()
        await self.kiosk.start(wanted)
        self.kiosk.drop_received()
        return await self.kiosk.invitation()

    async def reset(self) -> None:
        """After a failure nothing of what was is to be seen by the next test."""
        async with asyncio.timeout(60):
            await self.kiosk.restore()
            await self.kiosk.stop()
            await self.phone.switch_off()
            await self.machine.stop_bluetoothd()
            await self.machine.remove_controllers()
