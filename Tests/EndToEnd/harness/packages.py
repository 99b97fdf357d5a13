"""The Debian packages of Earshot on the guest, which apt installs from files, without a network."""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.bus import Bus
from harness.machine import Machine, run, systemctl
from harness.stage import Stage
from phones.phone import Phone

#: The folders in which programs and the scripts of packages create files. To search all of /usr takes the guest minutes.
SYSTEM = ("/etc", "/run", "/usr/bin", "/usr/lib/python3", "/usr/lib/systemd", "/usr/local", "/usr/share/earshot-check", "/var")
#: The users that the packages create. They stay after a purge, as Debian's policy recommends.
USERS = ("earshot", "earshot-check", "earshot-nostr", "earshot-presence", "earshot-social")
#: The units that the installation enables and starts.
STARTED = ("earshotd.service", "earshot-check.socket")
#: The units that use the network, and are neither enabled nor started.
OFF = ("earshot-nostrd.service", "earshot-presenced.service", "earshot-sociald.socket", "earshot-sociald.service",
       "earshot-check-status.timer")
#: The settings of the administrator that an upgrade keeps.
OWN_SETTINGS = Path("/etc/earshot/earshot.conf.d/own.conf")
MAIN_SETTINGS = Path("/etc/earshot/earshot.conf")


@dataclass(frozen=True)
class Package:
    """One file of a package."""

    file: Path
    name: str
    version: str

    @classmethod
    def read(cls, file: Path) -> Package:
        found = re.fullmatch(r"([a-z0-9-]+)_([^_]+)_[a-z0-9]+\.deb", file.name)
        if found is None:
            raise ValueError(f"{file} is not named like a package")
        return cls(file, found[1], found[2])


def packages(folder: Path) -> list[Package]:
    return [Package.read(file) for file in sorted(folder.glob("*.deb"))]


async def apt(*words: str) -> str:
    """Runs apt-get without questions; returns its output. The output includes that of the packages' scripts."""
    return await run(
        "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--yes", "--quiet", "--option=Dpkg::Use-Pty=0",
        "--option=Dpkg::Options::=--force-confold", *words,
    )


async def main_process(unit: str = "earshotd.service") -> int:
    """The process ID of the unit; 0 while it does not run."""
    return int(await systemctl("show", "--property=MainPID", "--value", unit))


class Packages:
    """The packages of two versions, of which at most one is installed."""

    def __init__(self, current: Path, previous: Path) -> None:
        """The folders with the packages of each version."""
        self.current = packages(current)
        self.previous = packages(previous)
        #: The files with the name of the project before the first installation; None as long as nothing was installed.
        self.before: set[str] | None = None
        if {package.name for package in self.current} != {package.name for package in self.previous}:
            raise ValueError(f"{current} and {previous} have different packages")

    @property
    def names(self) -> list[str]:
        return [package.name for package in self.current]

    async def installed(self) -> dict[str, str]:
        """The versions of the installed packages by name."""
        lines = await run("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package} ${Version}\\n", *self.names, check=False)
        words = [line.split() for line in lines.splitlines() if line.startswith("installed ")]
        return {name: version for _, name, version in words}

    async def install(self, wanted: list[Package]) -> str:
        """Installs, upgrades or downgrades to these packages; returns the output."""
        if self.before is None and not await self.installed():
            self.before = await self.files()
        output = await apt("install", "--no-install-recommends", "--allow-downgrades", *(str(package.file) for package in wanted))
        assert await self.installed() == {package.name: package.version for package in wanted}, output
        return output

    async def have(self, wanted: list[Package]) -> None:
        """Installs these packages, unless they are installed."""
        if await self.installed() != {package.name: package.version for package in wanted}:
            await self.install(wanted)

    async def remove(self) -> str:
        return await apt("remove", *self.names)

    async def purge(self) -> set[str]:
        """Purges the packages; returns the files that they leave."""
        listed = (await run("dpkg-query", "--listfiles", *await self.installed())).splitlines()
        contents = {line for line in listed if line.startswith("/") and not Path(line).is_dir()}
        assert contents
        await apt("purge", *self.names)
        left = {path for path in contents if Path(path).exists()} | await self.files() - (self.before or set())
        # Files without the name of the project explain why a folder is left.
        return left | {str(inner) for path in left if Path(path).is_dir() for inner in Path(path).rglob("*")}

    async def files(self) -> set[str]:
        """The paths in these folders that have the name of the project, or belong to one of its users."""
        users = (await run("getent", "passwd", *USERS, check=False)).splitlines()
        owned = [word for line in users for word in ("-o", "-user", line.split(":")[0])]
        shared = ["(", "-path", "/run/bluez-vm*", "-o", "-path", "/var/cache", ")", "-prune", "-o"]
        found = await run("find", *SYSTEM, "-xdev", *shared, "(", "-iname", "*earshot*", *owned, ")", "-print", check=False)
        return {line for line in found.splitlines() if line.startswith("/")}


class PackagesStage(Stage):
    """The stage of a guest where the packages, and nothing else of the project, are installed."""

    def __init__(self, bus: Bus, machine: Machine, phone: Phone, out: Path, native: Path, found: Packages) -> None:
        super().__init__(bus, machine, phone, out, native)
        self.packages = found

    async def reset(self) -> None:
        await self.packages.have(self.packages.current)
        await super().reset()
