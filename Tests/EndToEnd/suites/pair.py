"""A node on Debian 12 and one on Debian 13, each in a guest of its own, on one radio. Both guests run each test simultaneously."""
from __future__ import annotations

import asyncio
import random
import string
import time
from collections import Counter
from contextlib import nullcontext
from typing import cast

from harness.limits import limit
from harness.machine import KIOSK
from harness.node import Node
from harness.pair import GUEST, RADIO, PairStage
from harness.runner import Suite
from harness.service import TRANSFER, WALLET, WALLET_PATH
from harness.stage import SETTINGS, Stage
from suites.linux import second_service
from suites.media import noise
from suites.visits import KB, clerk, credential

suite = Suite("pair")
#: Sizes of public messages, whose packets end below, at and above the longest write that either BlueZ accepts.
LINE_SIZES = range(400, 700)
#: Sizes of private messages that are sent in one packet.
PRIVATE_SIZES = range(5, 255, 3)


def text(guest: str, size: int) -> str:
    return "".join(random.Random(f"{guest} {size}").choices(string.ascii_letters + string.digits, k=size))


@suite.test("A node on Debian 12 and one on Debian 13 find each other, and what each says to all and in private arrives with its ticks", limit=240)
async def chat(stage: PairStage) -> None:
    async with stage.neighbours("chat") as (node, peer):
        await chat_once(stage, node, peer, "first")
        stage.measure(f"{(await node.properties())['Links']} links")


async def chat_once(stage: PairStage, node: Node, peer: str, what: str) -> None:
    await node.say(f"{what} of {stage.name} to all")
    number = await node.tell(peer, f"{what} of {stage.name} in private")
    assert (await node.until_heard(f"{what} of {stage.other} to all")).sender == peer
    heard = await node.until_heard(f"{what} of {stage.other} in private")
    assert heard.conversation == heard.sender == peer, heard
    await node.mark_read(heard.number)
    await node.until_state(number, "read")


async def say_all(stage: PairStage, node: Node, peer: str) -> None:
    """Sends texts of all these sizes, in both directions at once. Nothing is stored for sync, so a lost public message is missing;
    private ones are repeated."""
    begin = time.monotonic()
    for size in LINE_SIZES:
        await node.say(text(stage.name, size))
    numbers = [await node.tell(peer, text(stage.name, size)) for size in PRIVATE_SIZES]
    due = Counter(text(stage.other, size) for sizes in (LINE_SIZES, PRIVATE_SIZES) for size in sizes)

    async def found() -> Counter[str]:
        return Counter(message.text for message in await node.messages() if message.sender == peer)

    async def has_all() -> bool:
        return (await found()).total() >= due.total()

    try:
        await node.until(f"has all {due.total()} texts", has_all, 120)
    except TimeoutError as late:
        raise TimeoutError(f"{late}; missing: {shown(due - await found())}") from None
    spent = time.monotonic() - begin
    for number in numbers:
        await node.until_state(number, "delivered", "read", timeout=60)
    # Repetitions of either side have arrived by then.
    await stage.swap("all said")
    came = await found()
    assert came == due, f"too many: {shown(came - due)}; missing: {shown(due - came)}"
    stage.measure(f"{due.total()} texts each way in {spent:.0f} s")


def shown(texts: Counter[str]) -> list[str]:
    """A short description of some of them."""
    return [f"{count} of {len(each)} characters, {each[:12]}" for each, count in list(texts.items())[:5]]


@suite.test("Texts of nearly four hundred lengths, whose frames end around the longest write that each takes, arrive both ways, once each", limit=600)
async def lengths(stage: PairStage) -> None:
    async with stage.neighbours("lengths", Archive="0s") as (node, peer):
        await say_all(stage, node, peer)


@suite.test("The two give each other files of 1 byte, 20 kB and 100 kB, to all and in private, at the same time", limit=900)
async def files(stage: PairStage) -> None:
    async with stage.neighbours("files") as (node, peer):
        for size in (1, 20_000, 100_000):
            for private in (False, True):
                await stage.swap(f"{size} {private}")
                await give(stage, node, peer, size, private)


async def give(stage: PairStage, node: Node, peer: str, size: int, private: bool) -> None:
    begin = time.monotonic()
    name = f"{size} {private} of "
    path = await node.send_file(noise(name + stage.name, size), name + stage.name, peer=peer if private else "")
    file = await node.until_file(name + stage.other, timeout=200)
    assert file["Content"] == noise(name + stage.other, size), f"{name} came with {len(file['Content'])} bytes"
    assert (file["Private"], file["Peer"]) == (private, peer), file["Name"]
    await node.until_file_is(path, "delivered" if private else "sent", timeout=200)
    if size > 20_000:
        stage.measure(f"{size // 1000} kB {'in private' if private else 'to all'} in {time.monotonic() - begin:.1f} s")


@suite.test("Amid chat bluetoothd is killed on the one and then on the other: they talk again, nothing in private is lost and nothing is there twice", limit=400)
async def killed(stage: PairStage) -> None:
    async with stage.neighbours("killed") as (node, peer):
        sent: dict[int, str] = {}
        for who in (RADIO, GUEST):
            await stage.swap(f"before {who}")
            talk = asyncio.ensure_future(talk_on(node, peer, sent, f"{stage.name} when {who} was killed"))
            try:
                await asyncio.sleep(limit(2))
                if stage.name == who:
                    await stage.machine.kill_bluetoothd()
                    await stage.machine.start_bluetoothd()
                await asyncio.sleep(limit(4))
            finally:
                talk.cancel()
                await asyncio.wait([talk])
            assert talk.cancelled(), talk.exception()
            for number in sent:
                await node.until_state(number, "delivered", "read", timeout=90)
            theirs = await stage.swap(f"after {who}", list(sent.values()))
            texts = [message.text for message in await node.messages()]
            wrong = {each: texts.count(each) for each in theirs if texts.count(each) != 1}
            assert not wrong, f"lost, or there twice: {wrong}"
        stage.measure(f"{len(sent)} private texts from it")


async def talk_on(node: Node, peer: str, sent: dict[int, str], about: str) -> None:
    """Sends private messages without end, and records the accepted ones. A message may be sent although its call was cancelled, so no
    two calls have equal texts."""
    while True:
        what = f"{about}: {len(sent)}"
        sent[await node.tell(peer, what)] = what
        await asyncio.sleep(limit(0.3))


@suite.test("Where bluetoothd opens several ATT channels on both, texts of all lengths arrive both ways, once each", limit=700)
async def several_channels(stage: PairStage) -> None:
    async with stage.machine.att_channels(3), stage.neighbours("channels", Archive="0s") as (node, peer):
        limits = (await node.service.manager())["RadioLimits"]
        assert any("Channels=1" in each for each in limits), limits
        await say_all(stage, node, peer)


@suite.test("Where Debian 12 keeps to one ATT channel, as it is advised to, texts of all lengths and files arrive both ways, once each", limit=700)
async def one_channel(stage: PairStage) -> None:
    """With one channel Debian 12 does not serve the attribute that shows Debian 13 that it loses long writes: its announces have to
    show it."""
    async with stage.machine.att_channels(1) if stage.name == RADIO else nullcontext(), stage.neighbours("one channel", Archive="0s") as (node, peer):
        await say_all(stage, node, peer)
        await give(stage, node, peer, 100_000, private=False)


@suite.test("A wallet on either machine brings 100 KB to a verifier on the other, and is accepted", limit=400)
async def credentials(stage: PairStage) -> None:
    async with stage.together("credentials"):
        for verifier in (RADIO, GUEST):
            if stage.name == verifier:
                await stage.kiosk.start(SETTINGS)
                stage.kiosk.drop_received()
                await stage.swap(f"{verifier} waits", await stage.kiosk.invitation())
                await clerk(cast(Stage, stage), credential(100 * KB), True)
                await stage.swap(f"{verifier} has it")
                await stage.kiosk.stop()
            else:
                await bring(stage, await stage.swap(f"{verifier} waits"))
                await stage.swap(f"{verifier} has it")


async def bring(stage: PairStage, uri: str) -> None:
    """The wallet of this machine transfers the credential to the verifier of this invitation."""
    wallet = await second_service(cast(Stage, stage), KIOSK)
    try:
        await wallet.until_radio("ready")
        path = await wallet.call(WALLET_PATH, WALLET, "Send", "ss", uri, credential(100 * KB).decode())
        sent = await wallet.until("the wallet knows", TRANSFER, path, 120, State="accepted", Live=False)
        assert sent["ErrorCode"] == "", sent
        stage.measure(f"MTU {sent['Mtu']}")
    finally:
        await wallet.stop()
