"""A node of the mesh: an earshotd on an adapter of its own, and a local program's calls to it."""
from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dbus_fast import DBusError

from harness.bus import read_all
from harness.instances import one_more
from harness.machine import Machine
from harness.service import Service, Settings

MESH = "org.earshot.Mesh1"
MESH_PATH = "/org/earshot/mesh"
PEER = "org.earshot.MeshPeer1"
FILE = "org.earshot.MeshFile1"


@dataclass(frozen=True)
class Message:
    """An entry of `ListMessages`."""

    number: int
    time: int
    conversation: str
    sender: str
    nickname: str
    text: str
    state: str
    way: str


class Node:
    def __init__(self, service: Service, machine: Machine, name: str, adapter: int) -> None:
        self.service = service
        self.machine = machine
        self.name = name
        self.adapter = adapter
        self.bus = service.bus

    @classmethod
    async def make(cls, machine: Machine, name: str, adapter: int) -> Node:
        """Creates a node without stored state; it is not started."""
        service = await one_more(machine.bus, name)
        await machine.bus.listen(service.name)
        node = cls(service, machine, name, adapter)
        await service.stop()
        node.forget()
        return node

    def forget(self) -> None:
        """Deletes the node's stored state."""
        shutil.rmtree(Path(f"/var/lib/earshot-{self.name}"), ignore_errors=True)

    def settings(self, **mesh: str) -> Settings:
        """The settings of a node. All nodes use the machine's clock, so it is trusted."""
        return {
            "Radio": {"Adapter": f"hci{self.adapter}"},
            "Mesh": {"Enabled": "yes", "Nickname": self.name, "TrustClock": "yes", **mesh},
            "Wallet": {"Enabled": "no"},
            "Log": {"Level": "debug"},
        }

    async def start(self, **mesh: str) -> None:
        await self.machine.until_powered(self.adapter)
        await self.service.start(self.settings(**mesh))

    async def stop(self) -> None:
        await self.service.stop()

    # Its D-Bus interface.

    async def properties(self) -> dict[str, Any]:
        return await self.service.properties(MESH, MESH_PATH)

    async def call(self, method: str, signature: str = "", *arguments: Any, **more: Any) -> Any:
        return await self.service.call(MESH_PATH, MESH, method, signature, *arguments, **more)

    async def peer_id(self) -> str:
        return (await self.properties())["PeerId"]

    async def say(self, text: str) -> int:
        return await self.call("Say", "s", text)

    async def tell(self, peer: str, text: str) -> int:
        """Sends a private message. peer: an ID or a nickname."""
        return await self.call("Tell", "ss", peer, text)

    async def send_file(self, content: bytes, name: str, mime: str = "", peer: str = "") -> str:
        """Sends a file, public or to one peer; returns the path of its object."""
        descriptor = os.memfd_create("file")
        try:
            os.write(descriptor, content)
            os.lseek(descriptor, 0, os.SEEK_SET)
            return await self.call("SendFile", "hsss", 0, name, mime, peer, descriptors=[descriptor])
        finally:
            os.close(descriptor)

    async def files(self) -> dict[str, dict[str, Any]]:
        """The received and the outgoing files, by the paths of their objects."""
        objects = await self.bus.objects(self.service.name, "/org/earshot")
        return {path: interfaces[FILE] for path, interfaces in objects.items() if FILE in interfaces}

    async def content(self, path: str) -> bytes:
        return read_all(await self.service.call(path, FILE, "Open"))

    async def messages(self, after: int = 0) -> list[Message]:
        """The messages with a number above this one."""
        return [Message(*entry) for entry in await self.call("ListMessages", "uu", after, 5000)]

    async def mark_read(self, number: int) -> None:
        await self.call("MarkRead", "u", number)

    async def peers(self) -> dict[str, dict[str, Any]]:
        """The known peers, by ID."""
        objects = await self.bus.objects(self.service.name, "/org/earshot")
        found = [interfaces[PEER] for interfaces in objects.values() if PEER in interfaces]
        return {peer["PeerId"]: peer for peer in found}

    async def counters(self) -> dict[str, int]:
        return (await self.properties())["Counters"]

    async def story(self) -> str:
        """The state of the node, for the diagnosis of failures."""
        found = await self.properties()
        peers = {peer["Nickname"]: (peer["Direct"], peer["Hops"]) for peer in (await self.peers()).values()}
        counters = {name: number for name, number in found["Counters"].items() if number}
        stands = f"{self.name} is {found['State']}, with {found['Links']} links, and carries {found['Carried']} letters"
        return f"{stands}; peers, whether direct, and hops: {peers}; {counters}"

    # Waiting.

    async def until(self, what: str, test: Callable[[], Awaitable[Any]], timeout: float = 30) -> Any:
        """Waits until `test` returns a true value, by polling, because most changes of a node cause no signal. The error contains the
        node's state."""
        try:
            return await self.bus.until(f"{self.name} {what}", test, timeout, every=0.5)
        except TimeoutError as late:
            try:
                stands = await self.story()
            except DBusError as error:
                stands = f"how it stands it does not say: {error}"
            raise TimeoutError(f"{late}; {stands}") from None

    async def until_neighbours(self, count: int, timeout: float = 40) -> None:
        """Waits until it has links with this number of identified peers."""

        async def test() -> bool:
            return sum(peer["Direct"] for peer in (await self.peers()).values()) == count

        await self.until(f"has {count} neighbours", test, timeout)

    async def until_is(self, key: str, value: Any, timeout: float = 30) -> None:
        """Waits until a property of the mesh has this value."""

        async def test() -> bool:
            return (await self.properties())[key] == value

        await self.until(f"has {key} {value}", test, timeout)

    async def until_counts(self, name: str, count: int, timeout: float = 30) -> None:
        """Waits until a counter has exactly this value."""

        async def test() -> int | None:
            found = (await self.counters())[name]
            return found if found >= count else None

        found = await self.until(f"counts {count} {name}", test, timeout)
        assert found == count, (name, found)

    async def until_counts_some(self, name: str, timeout: float = 30) -> None:
        """Waits until a counter is above zero."""

        async def test() -> bool:
            return (await self.counters())[name] > 0

        await self.until(f"counts {name}", test, timeout)

    async def until_out(self, path: str, progress: int) -> None:
        """Waits until this percentage of a file was sent."""

        async def test() -> bool:
            return (await self.files())[path]["Progress"] >= progress

        await self.until(f"has {progress} % of {path} out", test, 60)

    async def until_knows(self, peer: str, timeout: float = 40) -> dict[str, Any]:
        async def test() -> dict[str, Any] | None:
            return (await self.peers()).get(peer)

        return await self.until(f"knows {peer}", test, timeout)

    async def until_hops(self, peer: str, count: int, timeout: float = 90) -> None:
        """Waits until the last announce of a peer has come over this number of hops."""

        async def test() -> bool:
            return (await self.peers()).get(peer, {}).get("Hops") == count

        await self.until(f"has {peer} {count} hops away", test, timeout)

    async def until_heard(self, text: str, timeout: float = 30, after: int = 0) -> Message:
        """Waits for a message with this text and a number above this one; there must be exactly one."""

        async def test() -> list[Message]:
            return [message for message in await self.messages(after) if message.text == text]

        found = await self.until(f"hears {text[:40]!r}", test, timeout)
        assert len(found) == 1, f"{self.name} has {text[:40]!r} {len(found)} times"
        return found[0]

    async def until_file(self, name: str, timeout: float = 30) -> dict[str, Any]:
        """Waits for a file with this name from another node; there must be exactly one. Returns its properties, with its content as
        `Content`."""

        async def test() -> list[str]:
            files = (await self.files()).items()
            return [path for path, file in files if (file["Direction"], file["Name"]) == ("incoming", name)]

        found = await self.until(f"has the file {name}", test, timeout)
        assert len(found) == 1, f"{self.name} has {name} {len(found)} times"
        return {**(await self.files())[found[0]], "Content": await self.content(found[0])}

    async def until_file_is(self, path: str, *states: str, timeout: float = 30) -> dict[str, Any]:
        async def test() -> dict[str, Any] | None:
            file = (await self.files()).get(path)
            return file if file is not None and file["State"] in states else None

        return await self.until(f"has {path} {states}", test, timeout)

    async def until_state(self, number: int, *states: str, timeout: float = 30) -> Message:
        async def test() -> Message | None:
            return next((m for m in await self.messages() if m.number == number and m.state in states), None)

        return await self.until(f"has message {number} {states}", test, timeout)
