"""Nodes of the Bitchat mesh on Linux, each on an adapter of its own, central and peripheral at once."""
from __future__ import annotations

import asyncio
import random
import string
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harness.limits import limit
from harness.machine import FOURTH, KIOSK, OTHER, SECOND, THIRD
from harness.management import are_central
from harness.node import Node
from harness.radio import part
from harness.runner import Suite
from harness.service import VERIFIER
from harness.stage import Stage, settings
from phones.tuvali import DIALECTS
from suites.goodput import BriskWallet
from suites.linux import bring
from suites.transfers import MATRIX
from suites.visits import KB, SIZES, credential, speed, visit

suite = Suite("mesh")
NAMES = ("anna", "ben", "cleo", "dora")
ADAPTERS = (SECOND, OTHER, THIRD, KIOSK)


@asynccontextmanager
async def nodes(stage: Stage, count: int, deaf: tuple[tuple[int, int], ...] = (), **mesh: str) -> AsyncIterator[list[Node]]:
    """This number of nodes without stored state.

    deaf: pairs of them, by their index, that are out of each other's range."""
    await stage.set_radio()
    await stage.kiosk.stop()
    part((ADAPTERS[one], ADAPTERS[other]) for one, other in deaf)
    found = [await Node.make(stage.machine, name, adapter) for name, adapter in zip(NAMES[:count], ADAPTERS)]
    try:
        for node in found:
            await node.start(**mesh)
        yield found
    finally:
        for node in found:
            await node.stop()
        part(())


async def chat(one: Node, other: Node, size: int = 40) -> None:
    """A public and a private message from one to the other, with both delivery states."""
    public, private = (f"{one.name} to {what} " + "." * size for what in ("all", other.name))
    await one.say(public)
    sent = await one.tell(await other.peer_id(), private)
    assert (await other.until_heard(public)).conversation == ""
    heard = await other.until_heard(private)
    assert heard.conversation == heard.sender == await one.peer_id(), heard
    try:
        await one.until_state(sent, "delivered", "read")
        await other.mark_read(heard.number)
        await one.until_state(sent, "read")
    except TimeoutError as late:
        raise TimeoutError(f"{late}; {await other.story()}") from None


@suite.test("Two nodes find each other, and what is said to all and in private arrives with its ticks", limit=90)
async def two(stage: Stage) -> None:
    async with nodes(stage, 2) as (anna, ben):
        for node in (anna, ben):
            await node.until_neighbours(1)
        await chat(anna, ben)
        await chat(ben, anna)
        for node in (anna, ben):
            stage.measure(f"{node.name}: {(await node.properties())['Links']} links")


@suite.test("Three nodes have links with each other, and each hears both others", limit=150)
async def three(stage: Stage) -> None:
    async with nodes(stage, 3) as found:
        for node in found:
            await node.until_neighbours(2, timeout=60)
        for one in found:
            for other in found:
                if one is not other:
                    await tell_all(one, other)


async def tell_all(one: Node, other: Node) -> None:
    await chat_once(one, other, f"{one.name} for {other.name}")


async def chat_once(one: Node, other: Node, text: str) -> None:
    sent = await one.tell(await other.peer_id(), text)
    await other.until_heard(text)
    await one.until_state(sent, "delivered", "read")


@suite.test("Four nodes have links with each other, each central and peripheral at once", limit=200)
async def four(stage: Stage) -> None:
    async with nodes(stage, 4) as found:
        for node in found:
            await node.until_neighbours(3, timeout=80)
        for number, one in enumerate(found):
            await one.say(f"to all from {one.name}")
            await chat_once(one, found[number - 1], f"{one.name} in private")
        ends = {adapter: are_central(adapter) for adapter in ADAPTERS}
        assert all(len(roles) == 3 for roles in ends.values()), ends
        # At least two of them have therefore made one link and accepted one.
        stage.measure(f"{sum(len(set(roles)) == 2 for roles in ends.values())} of them central of one and peripheral of another")
        for node in found:
            for other in found:
                if node is not other:
                    await node.until_heard(f"to all from {other.name}")
            counters = await node.counters()
            assert counters["ScanSeconds"] > 0 and counters["AdvertiseSeconds"] > 0, counters


@suite.test("Four nodes in a line, whose ends do not hear each other, pass on what is said to all and in private", limit=200)
async def line(stage: Stage) -> None:
    async with nodes(stage, 4, deaf=((0, 2), (0, 3), (1, 3))) as found:
        for node, count in zip(found, (1, 2, 2, 1)):
            await node.until_neighbours(count, timeout=60)
        anna, _, _, dora = found
        await anna.until_knows(await dora.peer_id())
        await dora.until_knows(await anna.peer_id())
        await chat(anna, dora)
        await chat(dora, anna)
        # A neighbour's sync answer does not show the number of hops; the next announce does.
        await anna.until_hops(await dora.peer_id(), 3)


#: Bytes of a text that makes some fifty frames.
TEXT = 32_000


async def flood(one: Node, other: Node, count: int) -> int:
    """Sends long texts until this number of frames has been sent; each is received once before the next one is sent.

    Returns the number of frames."""
    dice = random.Random(one.name)
    begin, sender = (await one.counters())["SentFrames"], await one.peer_id()
    texts: list[str] = []
    heard: list[str] = []
    last = 0

    async def note(up_to: int | None = None) -> None:
        """Reads new messages as they arrive: without an archive only the latest ones are stored."""
        heard.extend(
            each.text for each in await other.messages(last)
            if each.sender == sender and len(each.text) == TEXT and (up_to is None or each.number <= up_to)
        )

    while True:
        text = "".join(dice.choices(string.ascii_letters + string.digits, k=TEXT))
        await one.say(text)
        # Reading all earlier messages each time would cost the guest most of its time.
        number = (await other.until_heard(text, timeout=60, after=last)).number
        await note(number)
        last = number
        texts.append(text)
        if (sent := (await one.counters())["SentFrames"] - begin) >= count:
            await note()
            assert sorted(heard) == sorted(texts), f"{len(texts)} were said, and {len(heard)} heard"
            return sent


async def gap(one: Node, other: Node) -> int:
    """Number of frames that one has sent and the other not received, at a moment when none is under way."""
    async with asyncio.timeout(limit(20)):
        while True:
            before = (await one.counters())["SentFrames"]
            received = (await other.counters())["Frames"]
            await asyncio.sleep(limit(1))
            if before == (await one.counters())["SentFrames"] and received == (await other.counters())["Frames"]:
                return before - received


async def flood_each_other(stage: Stage, anna: Node, ben: Node, count: int) -> None:
    """Each sends the other this number of frames at the same time, and none is lost."""
    for node in (anna, ben):
        await node.until_neighbours(1)
    await chat(anna, ben)
    await chat(ben, anna)
    pairs = ((anna, ben), (ben, anna))
    before = [await gap(*pair) for pair in pairs]
    begin = time.monotonic()
    sent = await asyncio.gather(*(flood(*pair, count) for pair in pairs))
    seconds = time.monotonic() - begin
    after = [await gap(*pair) for pair in pairs]
    stage.measure(f"{sent[0]} and {sent[1]} frames in {seconds:.0f} s; before that {before} were lost")
    assert after == before, f"lost: {[b - a for a, b in zip(before, after)]}"


@suite.test("Ten thousand packets each way at the same time arrive without a gap", limit=2400)
async def packets(stage: Stage) -> None:
    async with nodes(stage, 2, Archive="0s") as (anna, ben):
        await flood_each_other(stage, anna, ben, 10_000)


@suite.test("With bluetoothd opening several ATT channels, two nodes talk, and a thousand packets each way arrive without a gap", limit=400)
async def several_channels(stage: Stage) -> None:
    await stage.set_radio()
    async with stage.machine.att_channels(3), nodes(stage, 2, Archive="0s") as (anna, ben):
        limits = (await anna.service.manager())["RadioLimits"]
        assert any("Channels=1" in each for each in limits), limits
        await flood_each_other(stage, anna, ben, 1_000)


#: The intended share of the goodput without mesh.
AIM = 0.8
#: The maximum number of runs: two suffice where the machine has no other load.
TURNS = 4
CHANGES_OF_STATE = f"member='PropertiesChanged',arg0='{VERIFIER}'"
#: Three nodes that chat load the guest so much that the phone may need more than the usual 10 s to identify itself.
PATIENT = settings(IdentifyTimeout="1min")
#: The settings of a kiosk that is also a node of the mesh.
KIOSK_AND_NODE = {**PATIENT, "Mesh": {"Enabled": "yes", "Nickname": "kiosk", "TrustClock": "yes"}}


@suite.test(
    "A wallet is served while three nodes have links with the kiosk and chat; how fast beside a kiosk without mesh", limit=900,
    measures=True)
async def beside_verifier(stage: Stage) -> None:
    async with nodes(stage, 3) as found:
        for node in found:
            await node.until_neighbours(2, timeout=60)
        rates: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(1, TURNS + 1):
            for has_mesh in (False, True):
                await (join(stage) if has_mesh else stage.set(PATIENT))
                # The guest carries the nodes' traffic in both cases: the kiosk's part in it makes the difference.
                async with talking(stage, found):
                    result, _ = await visit(stage, BriskWallet(stage.phone, DIALECTS["0.5"], mtu=517), credential(100 * KB))
                rates[has_mesh].append(result.frame / result.written)
            # Other load makes single transfers slower, and none faster: the best of each is nearest to the truth.
            without, beside = max(rates[False]) / 1000, max(rates[True]) / 1000
            if turn >= 2 and beside >= AIM * without:
                break
        # No test judges a duration: a missed target is printed.
        missed = "" if beside >= AIM * without else f", MISSED: less than {AIM}"
        stage.measure(f"{without:.1f} kB/s without mesh, {beside:.1f} kB/s with it ({beside / without:.2f}{missed})")
        await stage.kiosk.stop()


@suite.test("Every wallet is served while three nodes have links with the kiosk and chat", limit=3000)
async def every_wallet(stage: Stage) -> None:
    async with nodes(stage, 3) as found:
        kiosk = await join(stage)
        links: list[int] = []
        for who, make, dialect, mtu, size, accept in MATRIX:
            await kiosk.until_neighbours(3, timeout=80)
            async with talking(stage, found):
                result, _ = await visit(stage, make(stage.phone, dialect, mtu), credential(SIZES[size]), accept)
                links.append((await kiosk.properties())["Links"])
            if result.frame > 100 * KB:
                stage.measure(f"{who}, {size}: {speed(result)}")
            assert result.rounds == 0, f"{who} ({dialect}, {mtu}, {size}): {result.resent} chunks were lost on the way"
        await kiosk.until_neighbours(3, timeout=80)
        async with talking(stage, found):
            await bring(stage, await stage.kiosk.invitation(), 100 * KB, True, FOURTH)
            links.append((await kiosk.properties())["Links"])
        await chat(found[0], kiosk)
        stage.measure(f"links of the mesh after each: {', '.join(map(str, links))}")
        # A busy guest may lose a link for a moment.
        assert links.count(3) > len(links) / 2 and min(links) > 0, links
    await stage.kiosk.stop()


async def join(stage: Stage) -> Node:
    """Makes the kiosk a node of the mesh, with the three nodes as neighbours."""
    await stage.set(KIOSK_AND_NODE)
    kiosk = Node(stage.kiosk, stage.machine, "kiosk", KIOSK)
    await kiosk.until_neighbours(3, timeout=80)
    return kiosk


@asynccontextmanager
async def talking(stage: Stage, found: list[Node]) -> AsyncIterator[None]:
    """Each node sends a public message once in three seconds."""
    talks = [asyncio.ensure_future(talk_all(node)) for node in found]
    try:
        # Otherwise the kiosk's messages would load this program, which also runs the phone, more than the kiosk.
        async with stage.bus.hearing_only(stage.kiosk.name, "member='CredentialReceived'", CHANGES_OF_STATE):
            yield
    finally:
        for talk in talks:
            talk.cancel()
        await asyncio.wait(talks)
    for talk in talks:
        assert talk.cancelled(), talk.exception()


async def talk_all(node: Node) -> None:
    """Sends a public message once in three seconds, without end."""
    number = 0
    while True:
        number += 1
        await node.say(f"{node.name} says {number}")
        await asyncio.sleep(limit(3))
