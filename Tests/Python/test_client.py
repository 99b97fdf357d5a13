"""The Python client against a stand-in for the service on a private bus."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
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
import kiosk  # noqa: E402
import meshbot  # noqa: E402

pytestmark = pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="needs dbus-daemon")

PAGE = (TOP / "docs/dbus.md").read_text()
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

    @staticmethod
    def signature(message: Message) -> str:
        """The types of the results of a method, as docs/dbus.md has them."""
        section = PAGE.split(f"\n## {message.interface}\n")[1].split("\n## ")[0]
        row = next(line for line in section.splitlines() if line.startswith(f"| `{message.member}` |"))
        return "".join(re.findall(r"`(.*?)`", row.split("|")[3]))

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
                return Message.new_method_return(message, self.signature(message), [rows])
        return Message.new_method_return(message, "u", [1])


@asynccontextmanager
async def private_bus(folder: Path, ends: asyncio.Event | None = None, rules: str = "") -> AsyncIterator[str]:
    """Runs a bus of its own, until `ends` is set or the body ends. `rules` are added to its policy."""
    address = f"unix:path={folder}/bus"
    configuration = folder / "bus.conf"
    configuration.write_text(
        f"<busconfig><listen>{address}</listen><auth>EXTERNAL</auth><policy context='default'>"
        f"<allow send_destination='*'/><allow receive_sender='*'/><allow own='*'/>{rules}</policy></busconfig>"
    )
    daemon = await asyncio.create_subprocess_exec(
        "dbus-daemon", f"--config-file={configuration}", "--nofork", "--print-address", stdout=asyncio.subprocess.PIPE
    )
    assert daemon.stdout is not None
    await daemon.stdout.readline()

    async def end() -> None:
        if ends is not None:
            await ends.wait()
            daemon.terminate()

    ending = asyncio.ensure_future(end())
    try:
        yield address
    finally:
        ending.cancel()
        if daemon.returncode is None:
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
            stand_in.messages = [[7, 1, "", "aa", "alice", "old", "unread", "mesh"]]
            messages = service.mesh.messages()
            following = asyncio.ensure_future(take(messages))
            while sum(member == "ListMessages" for _, member, _ in stand_in.calls) < 3:
                await asyncio.sleep(0)
            stand_in.messages.append([8, 2, "aa", "aa", "alice", "new", "unread", "uplink"])
            stand_in.signal("/org/earshot/mesh", "org.earshot.Mesh1", "MessageReceived", "u", 8)
            message = await following
            assert (message.text, message.is_private, message.is_own) == ("new", True, False)
            assert message.way == "uplink"

    asyncio.run(run())


def test_messages_of_a_restarted_service_are_yielded_although_its_numbers_are_lower(tmp_path: Path) -> None:
    async def run() -> None:
        async with private_bus(tmp_path) as address, earshot.connect(address) as service:
            stand_in = StandIn(address)
            stand_in.messages = [[9, 1, "two-words", "before", -60]]
            await stand_in.start()
            messages = service.nearby.messages(after=8)
            assert (await take(messages)).text == "before"
            following = asyncio.ensure_future(take(messages))
            stand_in.stop()
            again = StandIn(address)
            again.messages = [[1, 2, "two-words", "after", 127]]
            await again.start()
            message = await following
            assert (message.number, message.text, message.strength) == (1, "after", None)
            again.stop()

    asyncio.run(run())


def test_messages_of_a_service_that_starts_later_are_not_new(tmp_path: Path) -> None:
    async def run() -> None:
        async with private_bus(tmp_path) as address, earshot.connect(address) as service:
            following = asyncio.ensure_future(take(service.mesh.messages()))
            with pytest.raises(earshot.ServiceGone):
                await service.state()
            stand_in = StandIn(address)
            stand_in.messages = [[3, 1, "", "aa", "alice", "old", "unread", "mesh"]]
            await stand_in.start()
            while sum(member == "ListMessages" for _, member, _ in stand_in.calls) < 3:
                await asyncio.sleep(0)
            stand_in.messages.append([4, 1, "", "aa", "alice", "new", "unread", "mesh"])
            stand_in.signal("/org/earshot/mesh", "org.earshot.Mesh1", "MessageReceived", "u", 4)
            assert (await following).text == "new"
            stand_in.stop()

    asyncio.run(run())


def test_each_code_is_yielded_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as (stand_in, service):

            def change(uri: str) -> None:
                stand_in.objects[VERIFIER] = {"org.earshot.Verifier1": {"ConnectionUri": Variant("s", uri)}}
                values = ["org.earshot.Verifier1", {}, []]
                stand_in.signal(VERIFIER, "org.freedesktop.DBus.Properties", "PropertiesChanged", "sa{sv}as", *values)

            change("first")
            codes = service.connection_uris()
            assert await take(codes) == "first"
            following = asyncio.ensure_future(take(codes))
            change("first")
            change("second")
            assert await following == "second"

    asyncio.run(run())


def test_a_bus_that_cannot_be_reached_is_an_error_of_the_client(tmp_path: Path) -> None:
    async def run() -> None:
        with pytest.raises(earshot.ServiceGone, match="cannot be reached"):
            async with earshot.connect(f"unix:path={tmp_path}/nothing"):
                pass

    asyncio.run(run())


def test_a_bus_that_refuses_the_authentication_is_an_error_of_the_client(tmp_path: Path) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"REJECTED DBUS_COOKIE_SHA1\r\n")
        await reader.read()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_unix_server(refuse, tmp_path / "bus")
        async with server:
            with pytest.raises(earshot.ServiceGone, match=r"cannot be reached: .*REJECTED"):
                async with earshot.connect(f"unix:path={tmp_path}/bus"):
                    pass

    asyncio.run(run())


def test_a_connection_whose_signals_the_bus_refuses_is_closed(tmp_path: Path) -> None:
    async def names(bus: MessageBus) -> list[str]:
        daemon = "org.freedesktop.DBus"
        call = Message(destination=daemon, path="/org/freedesktop/DBus", interface=daemon, member="ListNames")
        reply = await bus.call(call)
        assert reply is not None
        return [name for name in reply.body[0] if name.startswith(":")]

    async def run() -> None:
        rules = "<deny send_interface='org.freedesktop.DBus' send_member='AddMatch'/>"
        async with private_bus(tmp_path, rules=rules) as address:
            watcher = await MessageBus(bus_address=address).connect()
            with pytest.raises(earshot.EarshotError) as refusal:
                async with earshot.connect(address):
                    pass
            assert refusal.value.code == "AccessDenied"
            async with asyncio.timeout(5):
                while await names(watcher) != [watcher.unique_name]:
                    await asyncio.sleep(0.01)
            watcher.disconnect()

    asyncio.run(run())


def test_an_iteration_fails_when_the_bus_ends(tmp_path: Path) -> None:
    async def run() -> None:
        ends = asyncio.Event()
        async with private_bus(tmp_path, ends) as address, earshot.connect(address) as service:
            waiting = asyncio.ensure_future(take(service.credentials()))
            with pytest.raises(earshot.ServiceGone):
                await service.state()
            ends.set()
            with pytest.raises(earshot.ServiceGone, match="bus is lost"):
                await waiting
            with pytest.raises(earshot.EarshotError):
                await take(service.credentials())

    asyncio.run(run())


def test_a_signal_of_another_program_yields_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as (stand_in, service):
            credentials = service.credentials()
            following = asyncio.ensure_future(take(credentials))
            while not stand_in.calls:
                await asyncio.sleep(0)
            other = await MessageBus(bus_address=stand_in.address).connect()
            for member, signature, body in (
                ("CredentialReceived", "o", [f"{VERIFIER}/credential9"]),
                ("NameOwnerChanged", "sss", ["org.earshot", "", ":1.99"]),
            ):
                signal = Message.new_signal(VERIFIER, "org.earshot.Verifier1", member, signature, body)
                signal.destination = service._connection._bus.unique_name
                await other.send(signal)
            stand_in.credential(1)
            stand_in.signal(VERIFIER, "org.earshot.Verifier1", "CredentialReceived", "o", f"{VERIFIER}/credential1")
            assert (await following).name == "credential1"
            other.disconnect()

    asyncio.run(run())


def test_every_message_has_a_field_for_each_member_on_the_bus() -> None:
    for interface, message in (
        ("org.earshot.Mesh1", earshot.MeshMessage),
        ("org.earshot.Broadcast1", earshot.NearbyMessage),
    ):
        call = Message(destination="org.earshot", path="/x", interface=interface, member="ListMessages")
        assert len(StandIn.signature(call)) - len("a()") == len(dataclasses.fields(message)), interface


def test_the_kiosk_stores_a_valid_credential_before_it_accepts_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as (stand_in, service):
            folder = tmp_path / "credentials"
            folder.mkdir()
            stand_in.credential(1, Issuer="Town")
            await kiosk.handle(await take(service.credentials()), folder)
            (file,) = folder.iterdir()
            assert file.read_bytes() == b"{}" and file.stat().st_mode & 0o777 == 0o600
            judging = [member for _, member, _ in stand_in.calls if member in ("OpenCredential", "Accept")]
            assert judging == ["OpenCredential", "Accept"]

    asyncio.run(run())


def test_the_kiosk_neither_fetches_nor_accepts_what_is_not_valid(tmp_path: Path) -> None:
    async def run() -> None:
        async with stage(tmp_path) as (stand_in, service):
            stand_in.credential(1, Verdict="")
            stand_in.credential(2, Verdict="revoked", State="accepted", ExpiresAt=1)
            credentials = service.credentials()
            for _ in range(2):
                await kiosk.handle(await take(credentials), tmp_path / "missing")
            assert not {"OpenCredential", "Accept", "Reject"} & {member for _, member, _ in stand_in.calls}

    asyncio.run(run())


def test_the_bot_answers_no_old_and_no_own_messages() -> None:
    def message(text: str, age: float, state: str = "unread") -> earshot.MeshMessage:
        return earshot.MeshMessage(1, int((10_000 - age) * 1000), "", "aa", "alice", text, state)

    assert meshbot.answer(message("!help", 1), 10_000) is not None
    assert meshbot.answer(message("!help", 121), 10_000) is None
    assert meshbot.answer(message("!help", 1, "sent"), 10_000) is None
    assert meshbot.answer(message("hello", 1), 10_000) is None
