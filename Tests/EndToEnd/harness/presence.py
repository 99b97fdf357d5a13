"""Private presence: instances of the installed `earshot-presenced`, each beside an earshotd of its own."""
from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

from harness.bus import BUS, Bus
from harness.limits import limit
from harness.machine import systemctl
from harness.service import Service, Settings

INTERFACE, PEER = "org.earshot.Presence1", "org.earshot.PresencePeer1"
PATH = "/org/earshot/presence"
UNIT = Path("/usr/lib/systemd/system/earshot-presenced.service")
POLICY = Path("/usr/share/dbus-1/system.d/org.earshot.Presence.conf")
#: Bluetooth alone.
SETTINGS: Settings = {"Presence": {"Interfaces": "none"}, "Log": {"Level": "debug"}}


class Presence:
    """One instance."""

    def __init__(self, service: Service, settings: Settings) -> None:
        self.service = service
        self.settings = settings

    @classmethod
    def installed(cls, bus: Bus) -> Presence:
        """The instance that the package installs, for the radio `org.earshot`."""
        service = Service(bus, "org.earshot.Presence", UNIT.name, Path("/etc/earshot/presence.conf.d/trial.conf"))
        return cls(service, SETTINGS)

    @classmethod
    async def one_more(cls, bus: Bus, name: str) -> Presence:
        """Prepares the instance `org.earshot.Presence.NAME`, for the radio `org.earshot.NAME`."""
        bus_name, configuration = f"org.earshot.Presence.{name}", Path(f"/etc/earshot-presence-{name}.conf")
        unit, text = f"earshot-presenced-{name}.service", UNIT.read_text()
        for old, new in (
            ("BusName=org.earshot.Presence\n", f"BusName={bus_name}\n"),
            ("ExecStart=/usr/bin/earshot-presenced\n",
             f"ExecStart=/usr/bin/earshot-presenced --bus-name {bus_name} --config {configuration}\n"),
            ("StateDirectory=earshot-presence\n", f"StateDirectory=earshot-presence-{name}\n"),
            ("Alias=dbus-org.earshot.Presence.service\n", ""),
        ):
            assert old in text, f"the unit has no line {old!r}"
            text = text.replace(old, new)
        Path("/run/systemd/system", unit).write_text(text)
        policy = POLICY.read_text().replace('"org.earshot.Presence"', f'"{bus_name}"')
        Path(f"/etc/dbus-1/system.d/{bus_name}.conf").write_text(policy.replace('"org.earshot"', f'"org.earshot.{name}"'))
        await bus.call(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig")
        await systemctl("daemon-reload")
        settings = {**SETTINGS, "Presence": {**SETTINGS["Presence"], "Radio": f"org.earshot.{name}"}}
        return cls(Service(bus, bus_name, unit, configuration), settings)

    async def start(self) -> None:
        await self.service.start(self.settings)

    async def stop(self) -> None:
        await self.service.stop()

    async def call(self, method: str, signature: str = "", *arguments: Any) -> Any:
        return await self.service.bus.call(self.service.name, PATH, INTERFACE, method, signature, *arguments)

    async def properties(self) -> dict[str, Any]:
        return await self.service.bus.properties(self.service.name, PATH, INTERFACE)

    async def counter(self, name: str) -> int:
        return (await self.properties())["Counters"].get(name, 0)

    async def key(self) -> str:
        return (await self.properties())["PublicKey"]

    async def add(self, name: str, other: Presence) -> str:
        """Adds another instance as a known peer. Returns the path of the peer."""
        return await self.call("AddPeer", "ss", name, await other.key())

    async def until(self, what: str, **wanted: Any) -> dict[str, Any]:
        """Waits for values of properties, which are signalled to members of the group only."""

        async def test() -> dict[str, Any] | None:
            found = await self.properties()
            return found if all(found[name] == value for name, value in wanted.items()) else None

        return await self.service.bus.until(what, test, 30, every=0.3)

    async def until_nearby(self, peer: str, ways: list[str]) -> None:
        """Waits until a peer can be reached by these ways."""

        async def test() -> bool:
            found = await self.service.bus.properties(self.service.name, peer, PEER)
            return found["Nearby"] and found["Ways"] == ways

        await self.service.bus.until(f"{peer} is nearby", test, 30, every=0.3)

    async def open(self, peer: str, service: str) -> Stream:
        """Opens a stream to a service of a peer."""
        return await Stream.over(await self.call("Open", "os", peer, service))


class Stream:
    """A program's end of a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def over(cls, descriptor: int) -> Stream:
        end = socket.socket(fileno=descriptor)
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end))

    async def echo(self, data: bytes) -> bytes:
        """Sends bytes, and returns as many of those that come back."""
        self.writer.write(data)
        async with asyncio.timeout(limit(30)):
            back, _ = await asyncio.gather(self.reader.readexactly(len(data)), self.writer.drain())
        return back

    async def until_ended(self, seconds: float) -> None:
        """Waits until the other side has ended the stream."""
        async with asyncio.timeout(limit(seconds)):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                pass

    def close(self) -> None:
        self.writer.close()


class Echo:
    """A local program that sends back what it receives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.streams: list[Stream] = []

    async def open(self) -> None:
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        os.chmod(self.path, 0o666)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.streams.append(Stream(reader, writer))
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def until_ended(self, seconds: float) -> None:
        """Waits until all its streams have ended."""
        async with asyncio.timeout(limit(seconds)):
            for stream in self.streams:
                while not (stream.reader.at_eof() or stream.reader.exception()):
                    await asyncio.sleep(0.05)
        self.streams.clear()

    def close(self) -> None:
        self._server.close()
        self.path.unlink(missing_ok=True)
