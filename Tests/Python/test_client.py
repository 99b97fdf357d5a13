"""The Python client against a stand-in for the service on a private bus."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

dbus_fast = pytest.importorskip("dbus_fast")

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "Sources/Python"), str(TOP / "examples/python")]

from dbus_fast import Message, MessageType, Variant  # noqa: E402
from dbus_fast.aio import MessageBus  # noqa: E402

import earshot  # noqa: E402
import meshbot  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon")

VERIFIER = "/org/earshot/verifier"
CREDENTIAL = "org.earshot.Credential1"


class StandIn:
    """A service that answers from its tables."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.objects: dict[str, dict[str, dict[str, Variant]]] = {}
        self.messages: list[list[Any]] = []
        self.calls: list[tuple[str, str, list[Any]]] = []
        self.bus: MessageBus

    async def start(self) -> None:
        """Connects, and takes the service's name."""
        self.bus = await MessageBus(bus_address=self.address, negotiate_unix_fd=True).connect()
        self.bus.add_message_handler(self.answer)
        await self.bus.request_name("org.earshot")

    def stop(self) -> None:
        """Ends the stand-in."""
        self.bus.disconnect()

    def credential(self, number: int, **properties: str | int) -> str:
        """Adds or replaces a credential, and returns its path."""
        path = f"{VERIFIER}/credential{number}"
        values = {"State": "received", "Verdict": "valid", **properties}
        self.objects[path] = {CREDENTIAL: {key: Variant("s", str(value)) for key, value in values.items()}}
        return path

    def signal(self, path: str, interface: str, member: str, signature: str, *body: Any) -> None:
        """Sends a signal."""
        self.bus.send(Message.new_signal(path, interface, member, signature, list(body)))

    def answer(self, message: Message) -> Message | None:
        """Answers a call."""
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        self.calls.append((message.path or "", message.member or "", list(message.body)))
        match message.member:
            case "GetManagedObjects":
                return Message.new_method_return(message, "a{oa{sa{sv}}}", [self.objects])
            case "GetAll":
                interfaces = self.objects.get(message.path or "", {})
                return Message.new_method_return(message, "a{sv}", [interfaces.get(message.body[0], {})])
            case "GetClaims":
                return Message.new_method_return(message, "s", ['{"name": "Anna"}'])
            case "Accept":
                self.objects[message.path or ""][CREDENTIAL]["VerdictDelivery"] = Variant("s", "sent")
                return Message.new_method_return(message)
            case "Reject":
                return Message.new_error(message, "org.earshot.Error.NotReady", "There is no credential to judge.")
            case "OpenCredential":
                descriptor = os.memfd_create("credential")
                os.write(descriptor, b"{}")
                os.lseek(descriptor, 0, os.SEEK_SET)
                return Message.new_method_return(message, "h", [0], [descriptor])
            case "ListMessages":
                rows = [row for row in self.messages if row[0] > message.body[0]]
                return Message.new_method_return(message, "a(utsssss)", [rows])
        return Message.new_method_return(message, "u", [1])


@asynccontextmanager
async def private_bus(folder: Path) -> AsyncIterator[str]:
    """Runs a bus of its own."""
    address = f"unix:path={folder}/bus"
    configuration = folder / "bus.conf"
    configuration.write_text(
        f"<busconfig><listen>{address}</listen><auth>EXTERNAL</auth><policy context='default'>"
        "<allow send_destination='*'/><allow receive_sender='*'/><allow own='*'/></policy></busconfig>"
    )
    daemon = await asyncio.create_subprocess_exec(
        "dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address", stdout=asyncio.subprocess.PIPE
    )
    assert daemon.stdout is not None
    await daemon.stdout.readline()
    try:
        yield address
    finally:
        daemon.terminate()
        await daemon.wait()


@asynccontextmanager
async def stage(folder: Path) -> AsyncIterator[tuple[StandIn, earshot.Service]]:
    """Runs a bus, a stand-in for the service, and the client."""
    async with private_bus(folder) as address:
        stand_in = StandIn(address)
        await stand_in.start()
        async with earshot.connect(address) as service:
            yield stand_in, service
        stand_in.stop()


async def take(iterator: AsyncIterator[Any]) -> Any:
    """Returns the next item. A test that waits in vain fails by this limit, which judges no speed."""
    return await asyncio.wait_for(anext(iterator), 600)


def test_credentials_are_yielded_once_with_their_verdict(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as (stand_in, service):
            stand_in.credential(1)
            stand_in.credential(2, Verdict="pending")
            credentials = service.credentials()
            first = await take(credentials)
            assert (first.name, first.verdict) == ("credential1", "valid")
            assert await first.claims() == {"name": "Anna"}
            assert await first.fetch() == b"{}"
            assert await first.accept()
            following = asyncio.ensure_future(take(credentials))
            while not any(path == VERIFIER for path, _, _ in stand_in.calls) and not following.done():
                path = stand_in.credential(2, Verdict="revoked")
                stand_in.signal(VERIFIER, "org.earshot.Verifier1", "VerdictReceived", "o", path)
                await asyncio.sleep(0)
            assert (await following).verdict == "revoked"

    asyncio.run(run())


def test_an_error_has_its_name_and_sentence(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as (stand_in, service):
            stand_in.credential(1)
            credential = await take(service.credentials())
            with pytest.raises(earshot.EarshotError, match="no credential to judge") as caught:
                await credential.reject()
            assert caught.value.code == "NotReady"

    asyncio.run(run())


def test_an_iteration_waits_for_a_service_that_is_not_running(tmp_path: Path) -> None:
    async def run() -> None:
        async with private_bus(tmp_path) as address, earshot.connect(address) as service:
            waiting = asyncio.ensure_future(take(service.credentials()))
            with pytest.raises(earshot.ServiceGone):
                await service.state()
            stand_in = StandIn(address)
            stand_in.credential(3)
            await stand_in.start()
            assert (await waiting).name == "credential3"
            stand_in.stop()

    asyncio.run(run())


def test_messages_begin_after_the_newest(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as (stand_in, service):
            stand_in.messages = [[7, 1, "", "aa", "alice", "old", "unread"]]
            messages = service.mesh.messages()
            following = asyncio.ensure_future(take(messages))
            while sum(member == "ListMessages" for _, member, _ in stand_in.calls) < 3:
                await asyncio.sleep(0)
            stand_in.messages.append([8, 2, "aa", "aa", "alice", "new", "unread"])
            stand_in.signal("/org/earshot/mesh", "org.earshot.Mesh1", "MessageWaiting", "u", 8)
            message = await following
            assert (message.text, message.is_private, message.is_own) == ("new", True, False)

    asyncio.run(run())


def test_the_bot_answers_no_old_and_no_own_messages() -> None:
    def message(text: str, age: float, state: str = "unread") -> earshot.MeshMessage:
        return earshot.MeshMessage(1, int((10_000 - age) * 1000), "", "aa", "alice", text, state)

    assert meshbot.answer(message("!help", 1), 10_000) is not None
    assert meshbot.answer(message("!help", 121), 10_000) is None
    assert meshbot.answer(message("!help", 1, "sent"), 10_000) is None
    assert meshbot.answer(message("hello", 1), 10_000) is None
