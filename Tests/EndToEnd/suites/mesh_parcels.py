"""Envelopes and files between nodes on Linux: a courier's envelopes, and files of every size, in both directions."""
from __future__ import annotations

import asyncio

from dbus_fast import DBusError

from harness.limits import limit
from harness.node import FILE, PEER, Node
from harness.runner import Suite
from harness.stage import Stage
from suites.media import noise
from suites.mesh import chat, nodes

suite = Suite("meshparcels")


@suite.test("A node's letter waits at a second node for a third one, which reads it once, and its ticks come back the same way", limit=300)
async def letter(stage: Stage) -> None:
    async with nodes(stage, 3) as (anna, ben, cleo):
        for node in (anna, ben, cleo):
            await node.until_neighbours(2, timeout=60)
        to_cleo = await cleo.peer_id()
        # For a peer that is not a favourite he carries one receipt, beside a message.
        await chat(ben, cleo)
        await ben.service.call(f"/org/earshot/mesh/peer{to_cleo}", PEER, "Favourite", "b", True)
        his_id = await ben.peer_id()

        async def is_favourite() -> bool:
            return (await cleo.peers())[his_id]["FavouriteOfPeer"]

        await cleo.until("is a favourite of Ben's", is_favourite, 60)
        # The node announces that it leaves, so Anna immediately uses a courier.
        await cleo.stop()
        number = await anna.tell(to_cleo, "a letter")
        await ben.until_counts("CourierTaken", 1, 90)
        assert (await anna.until_state(number, "sent")).state == "sent"
        await anna.stop()
        await cleo.start()
        heard = await cleo.until_heard("a letter", timeout=90)
        assert heard.conversation == heard.sender
        await ben.until_counts("CourierTaken", 2, 60)
        await cleo.mark_read(heard.number)
        await ben.until_counts("CourierTaken", 3, 60)
        assert (await ben.properties())["Carried"] == 2, "he carries the receipts, and the letter has gone"
        await cleo.stop()
        await anna.start()
        await anna.until_state(number, "read", timeout=90)
        await cleo.start()
        await chat(anna, cleo)
        assert [message.text for message in await cleo.messages()].count("a letter") == 1, "it came twice"
        assert not [message for message in await ben.messages() if "letter" in message.text], "Ben has read it"


async def give(one: Node, other: Node, size: int, *, private: bool) -> None:
    """Sends a file of this size, which must arrive byte by byte with its sender."""
    name = f"{size} bytes {'in private' if private else 'to all'} from {one.name}"
    content = noise(name, size)
    path = await one.send_file(content, name, peer=await other.peer_id() if private else "")
    await one.until_file_is(path, "delivered" if private else "sent", timeout=400)
    file = await other.until_file(name, timeout=60)
    assert file["Content"] == content, f"{name} came with {len(file['Content'])} bytes"
    assert (file["Private"], file["Peer"], file["Size"]) == (private, await one.peer_id(), size), file


@suite.test("Two nodes give each other files of 1 byte, 100 KB and 1 MiB, in private and to all, two at a time", limit=900)
async def files(stage: Stage) -> None:
    async with nodes(stage, 2) as (anna, ben):
        for node in (anna, ben):
            await node.until_neighbours(1)
        for size in (1, 100_000):
            for private in (False, True):
                await asyncio.gather(give(anna, ben, size, private=private), give(ben, anna, size, private=not private))
        await asyncio.gather(give(anna, ben, 1 << 20, private=True), give(ben, anna, 1 << 20, private=False))


@suite.test("A file that is cancelled on its way sends no more fragments and does not arrive, and the next one does", limit=240)
async def cancelled(stage: Stage) -> None:
    async with nodes(stage, 2) as (anna, ben):
        for node in (anna, ben):
            await node.until_neighbours(1)
        for private in (False, True):
            peer = await ben.peer_id() if private else ""
            path = await anna.send_file(noise("cancelled", 1 << 20), "cancelled", peer=peer)
            await anna.until_out(path, 10)
            await anna.service.call(path, FILE, "Cancel")
            # Packets that the kernel and bluetoothd had accepted before the answer still arrive.
            await anna.say(f"after it, {private}")
            await ben.until_heard(f"after it, {private}")
            begin = (await anna.counters())["SentFrames"]
            # By now Ben has requested the missing fragments.
            await asyncio.sleep(limit(8))
            frames = (await anna.counters())["SentFrames"] - begin
            file = (await anna.files())[path]
            assert file["State"] == "cancelled" and file["Progress"] < 100, file
            assert frames < 20, f"{frames} frames went out after it was cancelled, and announces and requests are some five"
            assert not await ben.files(), "it has arrived"
            try:
                await anna.service.call(path, FILE, "Cancel")
                raise AssertionError("it is cancelled once more")
            except DBusError as error:
                assert error.type == "org.earshot.Error.NotReady", error.type
            await anna.service.call(path, FILE, "Delete")
            assert path not in await anna.files()
        await give(anna, ben, 50_000, private=True)
