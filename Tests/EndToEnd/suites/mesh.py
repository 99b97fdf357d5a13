"""Nodes of the Bitchat mesh on Linux, each on an adapter of its own, central and peripheral at once."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harness.machine import KIOSK, OTHER, SECOND, THIRD
from harness.node import Node
from harness.radio import part
from harness.runner import Suite
from harness.stage import Stage

suite = Suite("mesh")
NAMES = ("anna", "ben", "cleo", "dora")
ADAPTERS = (SECOND, OTHER, THIRD, KIOSK)


@asynccontextmanager
async def nodes(stage: Stage, count: int, deaf: tuple[tuple[int, int], ...] = (), **mesh: str) -> AsyncIterator[list[Node]]:
    """So many nodes without a past.

    deaf: pairs of them, by their place in the list, that do not hear each other."""
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
    """A public line and a private text from one to the other, with both ticks."""
    public, private = (f"{one.name} to {what} " + "." * size for what in ("all", other.name))
    await one.say(public)
    sent = await one.tell(await other.peer_id(), private)
    assert (await other.until_heard(public)).conversation == ""
    heard = await other.until_heard(private)
    assert heard.conversation == heard.sender == await one.peer_id(), heard
    await one.until_state(sent, "delivered", "read")
    await other.mark_read(heard.number)
    await one.until_state(sent, "read")


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
        for node in found:
            for other in found:
                if node is not other:
                    await node.until_heard(f"to all from {other.name}")


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
        assert (await anna.peers())[await dora.peer_id()]["Hops"] == 3
