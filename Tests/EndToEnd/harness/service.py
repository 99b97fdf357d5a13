"""The installed earshotd: its unit, its configuration, its D-Bus interface."""
from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from harness.bus import Bus, read_all
from harness.limits import slowness
from harness.machine import run, systemctl

MANAGER = "org.earshot.Manager1"
VERIFIER = "org.earshot.Verifier1"
WALLET = "org.earshot.Wallet1"
TRANSFER = "org.earshot.Credential1"
VERIFIER_PATH = "/org/earshot/verifier"
WALLET_PATH = "/org/earshot/wallet"

Settings = dict[str, dict[str, str]]


#: Default delay in milliseconds before the service reports, in which the phone begins to listen.
REPORT_DELAY, LONGEST_REPORT_DELAY = 40, 1000


def paced(settings: Settings) -> Settings:
    """The settings for a slow guest, in which the phone needs longer than the service's default delay."""
    if "Verifier" not in settings or slowness() == 1:
        return settings
    delay = min(round(REPORT_DELAY * slowness()), LONGEST_REPORT_DELAY)
    return {**settings, "Verifier": {"ReportDelay": f"{delay}ms", **settings["Verifier"]}}


def settings_text(settings: Settings) -> str:
    """A configuration file."""
    return "".join(
        f"[{section}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items()) + "\n"
        for section, keys in settings.items()
    )


class Threads:
    """The threads of a process, according to the kernel."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}/task")

    def _values(self, key: str) -> dict[str, str]:
        """The values by thread ID."""
        found = {}
        for task in self._folder.iterdir():
            try:
                lines = (task / "status").read_text().splitlines()
            except FileNotFoundError:
                continue  # a thread that has just ended
            found |= {task.name: line.partition(":")[2].strip() for line in lines if line.startswith(f"{key}:")}
        return found

    @property
    def wakeups(self) -> Counter[str]:
        """Number of times that each thread has gone to sleep, which equals its wake-ups. The difference of two counts
        leaves out the threads that have ended in between."""
        return Counter({thread: int(value) for thread, value in self._values("voluntary_ctxt_switches").items()})

    @property
    def are_asleep(self) -> bool:
        """Whether every thread is waiting."""
        return all(state.startswith("S") for state in self._values("State").values())


class Service:
    """One instance of earshotd."""

    def __init__(self, bus: Bus, name: str, unit: str, configuration: Path) -> None:
        self.bus = bus
        self.name = name
        self.unit = unit
        self.configuration = configuration
        self.settings: Settings | None = None
        self.received: asyncio.Queue[str] = asyncio.Queue()
        bus.on_signal(self._on_signal)

    @classmethod
    def installed(cls, bus: Bus) -> Service:
        """The service that the package installs."""
        return cls(bus, "org.earshot", "earshotd.service", Path("/etc/earshot/earshot.conf.d/trial.conf"))

    def _on_signal(self, message: Any) -> None:
        if message.member == "CredentialReceived" and message.interface == VERIFIER:
            self.received.put_nowait(message.body[0])

    # The unit.

    async def start(self, settings: Settings) -> None:
        """Starts it with these settings, unless it already runs with them."""
        if settings == self.settings and await self.bus.owned(self.name):
            return
        self.settings = settings
        self.configuration.parent.mkdir(parents=True, exist_ok=True)
        self.configuration.write_text(settings_text(paced(settings)))
        await self.restart()

    async def restart(self) -> None:
        await systemctl("reset-failed", self.unit, check=False)
        await systemctl("restart", self.unit)
        self.drop_received()

    async def reload(self, settings: Settings) -> None:
        """Reloads it with other settings; their effects come later."""
        self.settings = settings
        self.configuration.write_text(settings_text(paced(settings)))
        await systemctl("reload", self.unit)

    async def stop(self) -> None:
        self.settings = None
        await systemctl("stop", self.unit)

    async def override(self, text: str) -> None:
        """Changes the unit until `restore`, beginning with the next start."""
        folder = Path(f"/run/systemd/system/{self.unit}.d")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "trial.conf").write_text(text)
        await systemctl("daemon-reload")
        self.settings = None

    async def restore(self) -> None:
        Path(f"/run/systemd/system/{self.unit}.d/trial.conf").unlink(missing_ok=True)
        await systemctl("daemon-reload")
        self.settings = None

    @property
    def restarts(self) -> asyncio.Future[str]:
        return asyncio.ensure_future(systemctl("show", "--property=NRestarts", "--value", self.unit))

    def cpu(self) -> float:
        """Processor time of the unit in seconds."""
        return unit_cpu(self.unit)

    async def threads(self) -> Threads:
        return Threads(int(await systemctl("show", "--property=MainPID", "--value", self.unit)))

    def memory(self) -> int:
        """Memory of the unit in bytes."""
        return int((_group(self.unit) / "memory.current").read_text())

    async def journal(self, since: float) -> str:
        return await run("journalctl", "--no-pager", "-o", "short-precise", "-u", self.unit, "--since", f"@{since:.6f}")

    # The D-Bus interface.

    async def properties(self, interface: str = VERIFIER, path: str = VERIFIER_PATH) -> dict[str, Any]:
        return await self.bus.properties(self.name, path, interface)

    async def manager(self) -> dict[str, Any]:
        return await self.properties(MANAGER, "/org/earshot")

    async def transfer(self, path: str) -> dict[str, Any]:
        return await self.properties(TRANSFER, path)

    async def call(self, path: str, interface: str, method: str, signature: str = "", *arguments: Any, **more: Any) -> Any:
        return await self.bus.call(self.name, path, interface, method, signature, *arguments, **more)

    async def until(
        self, what: str, interface: str, path: str, timeout: float = 20, **wanted: Any
    ) -> dict[str, Any]:
        """Waits until all these properties have these values."""

        async def test() -> dict[str, Any] | None:
            if not await self.bus.owned(self.name):
                return None
            found = await self.properties(interface, path)
            return found if all(found[key] == value for key, value in wanted.items()) else None

        return await self.bus.until(what, test, timeout)

    async def until_radio(self, state: str, timeout: float = 20) -> dict[str, Any]:
        return await self.until(f"the radio is {state}", MANAGER, "/org/earshot", timeout, RadioState=state)

    async def until_limit(self, words: str, wanted: bool, timeout: float = 20) -> None:
        """Waits until one of the radio's limits contains these words, or until none does."""

        async def test() -> bool:
            if not await self.bus.owned(self.name):
                return False
            return any(words in limit for limit in (await self.manager())["RadioLimits"]) is wanted

        await self.bus.until(f"{words} is {'' if wanted else 'not '}among the limits", test, timeout)

    async def invitation(self, timeout: float = 20) -> str:
        """Waits until the kiosk shows a QR code, which it does only while its radio works; returns the code's text."""

        async def test() -> str | None:
            found = await self.until("the kiosk waits", VERIFIER, VERIFIER_PATH, timeout, State="waiting")
            return found["ConnectionUri"] or None

        return await self.bus.until("the kiosk shows a QR code", test, timeout)

    async def invitation_beside(self, timeout: float = 20) -> str:
        """Waits until the kiosk shows a QR code, even while it serves a wallet, and returns the code's text."""

        async def test() -> str | None:
            return (await self.properties())["ConnectionUri"] or None

        return await self.bus.until("the kiosk shows a QR code", test, timeout)

    async def transfer_end(self, path: str, state: str, timeout: float = 10) -> dict[str, Any]:
        return await self.until(f"{path} is {state}", TRANSFER, path, timeout, State=state, Live=False)

    async def credential(self, path: str) -> bytes:
        return read_all(await self.call(path, TRANSFER, "OpenCredential"))

    async def judge(self, path: str, accept: bool) -> None:
        await self.call(path, TRANSFER, "Accept" if accept else "Reject")

    def drop_received(self) -> None:
        """Drops earlier signals of received credentials."""
        while not self.received.empty():
            self.received.get_nowait()


def _group(unit: str) -> Path:
    return Path(f"/sys/fs/cgroup/system.slice/{unit}")


def unit_cpu(unit: str) -> float:
    """Processor time of a unit in seconds."""
    for line in (_group(unit) / "cpu.stat").read_text().splitlines():
        name, value = line.split()
        if name == "usage_usec":
            return int(value) / 1e6
    raise LookupError(f"no usage_usec of {unit}")
