"""The guest: systemd, the controllers, bluetoothd. The components that are stopped, killed and awaited here are the real ones."""
from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dbus_fast import Variant

from harness.bus import Bus

BLUEZ = "org.bluez"
ADAPTER = "org.bluez.Adapter1"
CONTROLLERS = "bluez-vm-controllers.service"
BLUETOOTH = "bluetooth.service"
MAIN_CONF = Path("/etc/bluetooth/main.conf")
#: Adapters: the kiosk's, the phone's, that of a second earshotd, the two of a second phone (`phones/second.py`), and what a crowd
#: has besides (`phones/crowd.py`).
KIOSK, PHONE, SECOND, OTHER, PARTNER, THIRD, FOURTH, LAST_PARTNER = range(8)

#: A bit of the kernel's `tainted`: an oops or a BUG. Documentation/admin-guide/tainted-kernels.rst.
DIED = 1 << 7


async def run(*words: str, check: bool = True) -> str:
    """Runs a program to its end; returns its output."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    text = said.decode(errors="replace").strip()
    if check and process.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {text}")
    return text


async def systemctl(*words: str, check: bool = True) -> str:
    return await run("systemctl", "--no-pager", *words, check=check)


def adapter_path(number: int) -> str:
    return f"/org/bluez/hci{number}"


def _bluez_version() -> tuple[int, int]:
    said = subprocess.run(
        ["/usr/libexec/bluetooth/bluetoothd", "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.match(r"(\d+)\.(\d+)", said.strip())
    if found is None:
        raise RuntimeError(f"bluetoothd says its version is {said!r}")
    return int(found[1]), int(found[2])


class Machine:
    """The guest's Bluetooth."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.bluez = _bluez_version()
        self.kernel = Path("/proc/sys/kernel/osrelease").read_text().strip()

    async def journal_end(self) -> str:
        """The cursor of the journal's end. The test may set the clock, so times do not show the order."""
        said = await run("journalctl", "--quiet", "--lines", "1", "--output", "cat", "--show-cursor")
        return said.rpartition("-- cursor: ")[2]

    async def bluetoothd_crash(self, since: str) -> str:
        """The cause of a crash of bluetoothd after that cursor; empty without a crash. Tests kill it with SIGKILL or SIGTERM, which
        do not count."""
        ends = await run("journalctl", "--unit", "bluetooth.service", f"--after-cursor={since}", "--output", "cat", "--quiet",
                         "--grep", "Main process exited, .*/(ABRT|BUS|FPE|ILL|SEGV)$", check=False)
        return ends.strip()

    async def kernel_fault(self) -> str:
        """The kernel's message about its fault; empty without one. Bluetooth cannot be tested after a fault."""
        if not int(Path("/proc/sys/kernel/tainted").read_text()) & DIED:
            return ""
        lines = (await run("dmesg", "--notime")).splitlines()
        return next((line for line in lines if "BUG" in line or "Oops" in line), "a fault that it says nothing of")

    @property
    def has_scan_responses(self) -> bool:
        """Whether bluetoothd sends service data in the scan response."""
        return self.bluez >= (5, 80)

    # bluetoothd and its adapters.

    async def powered(self, number: int) -> bool | None:
        """Whether an adapter is powered; None where bluetoothd, or the adapter, is missing."""
        if not await self.bus.owned(BLUEZ):
            return None
        adapter = (await self.bus.objects(BLUEZ)).get(adapter_path(number), {}).get(ADAPTER)
        return adapter["Powered"] if adapter else None

    async def until_powered(self, number: int, wanted: bool | None = True, timeout: float = 20) -> None:
        async def test() -> bool:
            return await self.powered(number) is wanted

        await self.bus.until(f"hci{number} powered {wanted}", test, timeout)

    async def power(self, number: int, on: bool) -> None:
        await self.bus.set(BLUEZ, adapter_path(number), ADAPTER, "Powered", Variant("b", on))
        await self.until_powered(number, on)

    async def start_bluetoothd(self) -> None:
        await systemctl("unmask", "--runtime", BLUETOOTH)
        await systemctl("reset-failed", BLUETOOTH, check=False)
        await systemctl("start", BLUETOOTH)

    async def stop_bluetoothd(self) -> None:
        """Stops bluetoothd, and keeps the bus from starting it."""
        await systemctl("mask", "--runtime", "--now", BLUETOOTH)

    async def kill_bluetoothd(self) -> None:
        """Kills bluetoothd as in a crash; returns when the bus has noticed."""
        before = await self.bus.owner(BLUEZ)
        await systemctl("kill", "--signal=KILL", BLUETOOTH)

        async def is_gone() -> bool:
            return await self.bus.owner(BLUEZ) != before

        await self.bus.until("bluetoothd is gone", is_gone)

    @asynccontextmanager
    async def bluetooth_unit(self, drop_in: str) -> AsyncIterator[None]:
        """Changes bluetoothd's unit temporarily."""
        file = Path(f"/run/systemd/system/{BLUETOOTH}.d/zz-trial.conf")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(drop_in)
        try:
            await systemctl("daemon-reload")
            yield
        finally:
            file.unlink()
            await systemctl("daemon-reload")

    async def bluetoothd_command(self) -> list[str]:
        """Returns the command line of the running bluetoothd."""
        process = await systemctl("show", "--property=MainPID", "--value", BLUETOOTH)
        return Path(f"/proc/{process}/cmdline").read_text().rstrip("\0").split("\0")

    @asynccontextmanager
    async def without_generator(self) -> AsyncIterator[None]:
        """Gives bluetoothd the unit of the distribution, which takes effect when bluetoothd is started next."""
        mask = Path("/etc/systemd/system-generators/earshot-bluetooth-generator")
        mask.parent.mkdir(parents=True, exist_ok=True)
        mask.symlink_to("/dev/null")
        try:
            await systemctl("daemon-reload")
            yield
        finally:
            mask.unlink()
            await systemctl("daemon-reload")

    @asynccontextmanager
    async def standing_still(self) -> AsyncIterator[None]:
        """Stops bluetoothd by SIGSTOP, and lets it continue at the end."""
        await systemctl("kill", "--signal=STOP", BLUETOOTH)
        try:
            yield
        finally:
            await systemctl("kill", "--signal=CONT", BLUETOOTH)

    def block(self, number: int, wanted: bool) -> None:
        """Blocks an adapter by rfkill, or unblocks it."""
        for radio in Path("/sys/class/rfkill").iterdir():
            if (radio / "name").read_text().strip() == f"hci{number}":
                (radio / "soft").write_text(str(int(wanted)))
                return
        raise LookupError(f"rfkill does not list hci{number}")

    async def forget_device(self, number: int, path: str) -> bool:
        """Makes bluetoothd forget a peer if it is paired. Returns whether it was."""
        device = (await self.bus.objects(BLUEZ)).get(path, {}).get("org.bluez.Device1") if await self.bus.owned(BLUEZ) else None
        if not device or not device["Paired"]:
            return False
        await self.bus.call(BLUEZ, adapter_path(number), ADAPTER, "RemoveDevice", "o", path)
        return True

    @asynccontextmanager
    async def att_channels(self, count: int) -> AsyncIterator[None]:
        """Restarts bluetoothd with this maximum number of ATT channels per peer: more than one is opened only with a peer that opens
        several, too, as another release of BlueZ may."""
        before = MAIN_CONF.read_text() if MAIN_CONF.exists() else ""
        MAIN_CONF.write_text(before + f"\n[GATT]\nChannels={count}\n")
        try:
            await self.restart_bluetoothd()
            yield
        finally:
            MAIN_CONF.write_text(before)
            await self.restart_bluetoothd()

    async def restart_bluetoothd(self) -> None:
        await self.stop_bluetoothd()
        await self.start_bluetoothd()
        await self.until_powered(KIOSK)

    async def stop_bluetoothd_now(self) -> None:
        """Kills bluetoothd, and keeps every program from starting it."""
        await systemctl("mask", "--runtime", BLUETOOTH)
        await self.kill_bluetoothd()

    async def run_as_unit(self, unit: str, *words: str) -> None:
        """Starts a program of the tests as a unit, whose processor time can be read."""
        await run("systemd-run", "--quiet", f"--unit={unit}", *words)

    # The controllers.

    async def start_controllers(self) -> None:
        await systemctl("start", CONTROLLERS)

    async def remove_controllers(self) -> None:
        """Removes the controllers as if they were unplugged, including the phone's."""
        await systemctl("stop", CONTROLLERS)

    async def free_adapter(self, number: int) -> None:
        """Powers an adapter off, so that a phone can use it."""
        if await self.bus.owned(BLUEZ):
            if await self.powered(number) is None:
                return
            await self.until_powered(number)
            await self.power(number, False)
