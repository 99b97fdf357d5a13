"""Other people's clients of Bitchat beside a node: what crosses, and what does not by their own fault, so that a better version is
noticed. docs/mesh-limits.md has the table."""
from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from harness.clients import OURS, Bitchat4Agents, BitchatCLI, Client, PythonBitchatClient
from harness.limits import limit
from harness.machine import FOURTH, run
from harness.node import FILE, Node
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.apps import IOSApp
from suites.apps import Way, meet, node_alone, switched_on, text

suite = Suite("clients")
VECTORS = Path(__file__).parents[2] / "Protocols/BitchatTests/Vectors/bitchat-protocol.json"
#: Bytes of the largest file.
LARGEST = 1 << 20
#: Fields that a packet has or has not.
OPTIONAL = ("recipient", "route", "signature", "syncAnswer")


@asynccontextmanager
async def beside(stage: Stage, client: Client) -> AsyncIterator[Node]:
    """A node with that client, which has not met it yet."""
    await stage.set_radio()
    await stage.kiosk.stop()
    # On several channels packets of bleak's clients were lost (docs/facts/bitchat-delta.md section 8).
    async with stage.machine.att_channels(1), node_alone(stage) as node:
        await stage.machine.until_powered(client.adapter)
        async with client:
            yield node


async def public_lines(node: Node, client: PythonBitchatClient | BitchatCLI, *sizes: int) -> None:
    for size in sizes:
        line = text(f"node {size}", size)
        await node.say(line)
        await client.until(f"hears {size} bytes", lambda: client.heard(line), 60)


@suite.test("python-bitchat-client 0.2.0 and a node talk to all and in private; it reads nothing that is compressed", limit=660)
async def python_bitchat_client(stage: Stage) -> None:
    client = PythonBitchatClient(FOURTH, "python")
    async with beside(stage, client) as node:
        node_id = await node.peer_id()
        await client.until_met("knows the node", lambda: client.has_status("connected") and client.knows(node_id))
        assert (await node.until_knows(client.id, timeout=60))["Nickname"] == "python"
        await client.order(say="from python to all")
        assert (await node.until_heard("from python to all")).sender == client.id
        await public_lines(node, client, 20, 90)
        await client.order(tell=[node_id, "from python in private"])
        heard = await node.until_heard("from python in private", timeout=60)
        assert heard.conversation == client.id
        number = await node.tell(client.id, "from the node in private")
        await client.until("is told", lambda: client.heard("from the node in private", private=True), 60)
        # It pads everything and compresses nothing: what it says in 120 bytes arrives.
        await client.order(say=text("from python", 120))
        await node.until_heard(text("from python", 120))
        # Its own faults: it knows no compression and no fragments, and sends no receipts.
        await node.say(text("compressed", 120))
        await node.say("fragments " + unpacked("fragments", 700).hex())
        await public_lines(node, client, 30)
        assert not [found for found in client.texts if found.startswith(("compressed", "fragments"))], "it reads what it did not"
        assert (await node.until_state(number, "sent", "delivered", "read")).state == "sent", "it sends receipts"
        await loses_long_lines(stage, node, client)


async def loses_long_lines(stage: Stage, node: Node, client: PythonBitchatClient) -> None:
    """What it pads to 512 bytes is lost on its way through bluetoothd before 5.69, and on none later."""
    long = text("from python", 200)
    await client.order(say=long)
    await client.order(say="and after that")
    await node.until_heard("and after that")
    arrived = [message for message in await node.messages() if message.text == long]
    assert bool(arrived) is (stage.machine.bluez >= (5, 69)), arrived


@suite.test("bitchat4agents 0.1.0 and a node talk to all and in private, with receipts, files and sync; it cannot inflate", limit=1500)
async def bitchat4agents(stage: Stage) -> None:
    client = Bitchat4Agents(FOURTH, "agent")
    async with beside(stage, client) as node:
        node_id = await node.peer_id()
        # Before they meet.
        await node.say("said before the agent came")
        await client.until("has its socket", lambda: (client.folder / "daemon.sock").exists(), 90)
        await client.until_met("knows the node", lambda: node_id in client.peers)
        assert (await node.until_knows(client.id, timeout=60))["Nickname"] == "agent"
        await client.until("has missed nothing", lambda: client.heard("said before the agent came"), 90)
        # Wrapped in zlib's header from 256 bytes on, and signed so: the node checks the bytes that came.
        for size in (20, 300):
            line = text(f"agent {size}", size)
            await client.order("public_send", content=line)
            assert (await node.until_heard(line, timeout=60)).sender == client.id
        await node.say("from the node to all")
        await client.until("hears", lambda: client.heard("from the node to all"), 60)
        sent = await client.order("dm_send", peer_id=node_id, content="from the agent in private")
        heard = await node.until_heard("from the agent in private", timeout=60)
        await client.until("hears that it arrived", lambda: "delivered" in client.receipts(sent["message_id"]), 60)
        await node.mark_read(heard.number)
        number = await node.tell(client.id, "from the node in private")
        await client.until("is told", lambda: client.heard("from the node in private", "dm"), 60)
        await node.until_state(number, "delivered", timeout=60)
        told = next(each for each in client.records if each["content"] == "from the node in private")
        await client.order("dm_mark_read", peer_id=node_id, message_ids=[told["message_id"]])
        await node.until_state(number, "read", timeout=60)
        await agent_files(stage, node, client)
        # Its own faults: it keeps the first receipt of a message alone, and inflates what zlib wrapped, which neither app sends.
        await node.say(text("compressed", 120))
        await node.say("and after that")
        await client.until("hears", lambda: client.heard("and after that"), 60)
        assert not [each for each in client.records if each["content"].startswith("compressed")], "it inflates raw deflate"
        assert client.receipts(sent["message_id"]) == ["delivered"], "it keeps all receipts"
        # What it says to nobody it gives a node that asks later. A link that ends amid its answer to who asks stops it for good.
        await until_quiet(node)
        await node.stop()
        await client.order("public_send", content="said while the node was away")
        await node.start()
        heard = await node.until_heard("said while the node was away", timeout=240)
        assert heard.sender == client.id and (await node.counters())["UnaskedAnswers"] == 0
        # Not before that: it would answer who asks for lines with fragments.
        await files_each_way(node, client, ("hundred.bin", 100_000))
        # The largest file from it alone, and last: it drops what comes while 256 packets wait, and a guest has it wait long.
        path = client.home / "largest.bin"
        path.write_bytes(unpacked("largest", LARGEST))
        # A fragment each 30 ms; it answers after the last.
        await client.order("public_send_file", timeout=240, path=str(path))
        assert (await node.until_file("largest.bin", timeout=120))["Content"] == unpacked("largest", LARGEST)
        await agent_drops(node, client)


async def agent_drops(node: Node, client: Bitchat4Agents) -> None:
    """The largest file to it: it drops what comes while 256 packets wait, and in a guest it has them wait."""
    def dropped() -> int:
        return client.log.count("notification queue is full")

    before = dropped()
    path = await node.send_file(unpacked("to largest", LARGEST), "to largest")
    await client.until("drops fragments", lambda: dropped() > before, 240)
    await node.service.call(path, FILE, "Cancel")


def unpacked(name: str, size: int) -> bytes:
    """So many bytes that do not compress, other ones for each name."""
    return random.Random(name).randbytes(size)


async def until_quiet(node: Node) -> None:
    """Waits until nothing has come for three seconds."""
    before = -1
    while (now := (await node.counters())["Frames"]) != before:
        before = now
        await asyncio.sleep(limit(3))


async def files_each_way(node: Node, client: Bitchat4Agents, *files: tuple[str, int]) -> None:
    """To all, of these names and sizes. To the client first: of its own files it gives the fragments to who asks for lines, and while it
    does so it reads nothing."""
    for name, size in files:
        await node.send_file(unpacked("to " + name, size), f"to {name}")
        await client.until(f"has to {name}", lambda: client.file(f"to {name}") == unpacked("to " + name, size), 90)
        content = unpacked(name, size)
        path = client.home / name
        path.write_bytes(content)
        await client.order("public_send_file", path=str(path))
        file = await node.until_file(name, timeout=90)
        assert (file["Content"], file["Peer"], file["Private"]) == (content, client.id, False), file["Name"]


async def agent_files(stage: Stage, node: Node, client: Bitchat4Agents) -> None:
    """To all each way; in private from it."""
    node_id = await node.peer_id()
    await files_each_way(node, client, ("one.bin", 1), ("small.bin", 300), ("large.bin", 20_000))
    path = client.home / "private.bin"
    path.write_bytes(unpacked("private", 100))
    await client.order("dm_send_file", peer_id=node_id, path=str(path))
    file = await node.until_file("private.bin", timeout=60)
    assert (file["Content"], file["Peer"], file["Private"]) == (unpacked("private", 100), client.id, True), file["Name"]
    # Its fragments for one peer have 512 bytes, which bluetoothd before 5.69 drops.
    path = client.home / "fragments.bin"
    path.write_bytes(unpacked("fragments", 3000))
    await client.order("dm_send_file", peer_id=node_id, path=str(path))
    await client.order("public_send", content="after the file")
    await node.until_heard("after the file", timeout=60)
    if stage.machine.bluez >= (5, 69):
        assert (await node.until_file("fragments.bin", timeout=60))["Content"] == unpacked("fragments", 3000)
        # A Noise message of its library has 65,535 bytes at most.
        path = client.home / "many.bin"
        path.write_bytes(unpacked("many", 60_000))
        await client.order("dm_send_file", timeout=120, peer_id=node_id, path=str(path))
        file = await node.until_file("many.bin", timeout=120)
        assert (file["Content"], file["Private"]) == (unpacked("many", 60_000), True), file["Name"]
        path = client.home / "more.bin"
        path.write_bytes(unpacked("more", 66_000))
        with suppress(RuntimeError):
            await client.order("dm_send_file", timeout=120, peer_id=node_id, path=str(path))
        # To all: what it says in private waits behind the file that it cannot send.
        await client.order("public_send", content="after the longer file")
        await node.until_heard("after the longer file", timeout=60)
        assert "more.bin" not in [file["Name"] for file in (await node.files()).values()], "its messages are longer"
    else:
        assert "fragments.bin" not in [file["Name"] for file in (await node.files()).values()], "it was not lost"
    # Its own fault: it does not say that it takes private files.
    sent = await node.send_file(unpacked("to the agent", 100), "to the agent", peer=client.id)
    assert (await node.until_file_is(sent, "failed", "sent", "delivered", timeout=60))["State"] == "failed", "it takes private files"


@suite.test("bitchat-cli 0.2.3 hears what a node says, and gets files; its peer ID is not its key's, and nothing of it is shown or passed on", limit=720)
async def bitchat_cli(stage: Stage) -> None:
    client = BitchatCLI(FOURTH, "cli")
    async with beside(stage, client) as node, switched_on(stage, IOSApp("iphone")) as (radio,):
        await meet(radio, node, Way.FOUND)
        node_id = await node.peer_id()
        await client.until_met("knows the node", lambda: client.has_status("connected") and client.knows(node_id))
        await public_lines(node, client, 20, 300, 1500)
        for size in (1, 100_000):
            content = unpacked("cli", size)
            await node.send_file(content, f"{size}.bin")
            file = client.downloads / f"{size}.bin"
            await client.until(f"has {size} bytes", lambda: file.exists() and file.read_bytes() == content, 90)
        await loses_long_files(node, client)
        file = client.home / "theirs.bin"
        file.write_bytes(unpacked("theirs", 100))
        await client.does(file=str(file))
        await says_in_vain(node, client)
        counters = await node.counters()
        assert counters["BadAnnounces"] > 0, counters
        await node.say("and after that")
        await radio.app.until("hears the node", lambda: radio.app.has_line("and after that"), limit(40))
        assert client.id not in await node.peers()
        assert not [message for message in await node.messages() if message.sender == client.id]
        assert not [each for each in (await node.files()).values() if each["Direction"] == "incoming"]
        assert radio.app.senders[bytes.fromhex(client.id)] == 0, "something of it was passed on"


async def says_in_vain(node: Node, client: BitchatCLI) -> None:
    """The node waits for an announce of who said it. What the client says at the moment at which it loses its link gets nowhere."""
    for _ in range(5):
        await client.does(say="from somebody who is not his key")
        with suppress(TimeoutError):
            await node.until_counts_some("ChatOfUnknown", timeout=20)
            return
    raise TimeoutError("nothing that it said came to the node")


async def loses_long_files(node: Node, client: BitchatCLI) -> None:
    """A node cuts the link of who does not say who he is after 15 s, and a fragment goes each 25 ms."""
    cuts = client.cuts
    path = await node.send_file(unpacked("cli", 500_000), "long.bin")
    await client.until("has lost its link", lambda: client.cuts > cuts)
    await node.until_file_is(path, "sent", timeout=120)
    number = 0
    # Of what is said while it has no link it hears nothing.
    while f"after the file {number}" not in client.texts:
        number += 1
        await node.say(f"after the file {number}")
        with suppress(TimeoutError):
            await client.until("hears", lambda: f"after the file {number}" in client.texts, 5)
    assert not (client.downloads / "long.bin").exists(), "it has a file that takes longer than its link"


@suite.test("bitchat-protocol 0.2.0 and the service encode 10,000 packets alike, and read each other's", limit=120)
async def bitchat_protocol(stage: Stage) -> None:
    """The service makes the same bytes of the 10,000 and reads them back: ForeignCodecTests, with the same hash. Here it reads some of
    them, and what bitchat-protocol compresses by rules of its own."""
    wires, digits = stage.out / "bitchat-protocol.txt", stage.out / "bitchat-protocol.hex"
    package = Path(os.environ["E2E_CLIENTS"]) / "bitchat-protocol"
    await run("env", f"PYTHONPATH={package}", sys.executable, str(OURS / "agree.py"), str(VECTORS), str(wires))
    expected = []
    with digits.open("w") as file:
        for line in wires.read_text().splitlines():
            wire, _, fields = line.partition(" ")
            expected.append(json.loads(fields))
            print(wire, file=file)
    decoded = [json.loads(line) for line in (await run("earshot", "mesh", "decode", str(digits))).splitlines()]
    assert len(decoded) == len(expected) == 1000, f"{len(decoded)} of {len(expected)}"
    for fields, found in zip(expected, decoded):
        known = {name: found.get(name) for name in (*fields, *OPTIONAL)}
        assert known == {**dict.fromkeys(OPTIONAL), **fields}, (fields, found)
    for file in (wires, digits):
        file.unlink()
