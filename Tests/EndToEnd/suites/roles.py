"""Nodes with another `Role=` or `Power=` than the usual one: a mailbox, a relay, and one that saves its battery."""
from __future__ import annotations

import time

from dbus_fast import DBusError

from harness.limits import limit
from harness.node import Node
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.apps import IOSApp
from phones.mesh.values import Identity
from suites.apps import Way, check, meet, node_alone, switched_on, talk_across, two_over_a_node
from suites.mail import phone, until_read

suite = Suite("roles")

#: Of 400 letters a mailbox takes this many of one peer that is no favourite (docs/mesh-protocol.md).
LETTERS = 20


@suite.test("A mailbox keeps an iPhone's letters over a restart, gives one to whom it is for, and has none after a wipe", limit=240)
async def mailbox(stage: Stage) -> None:
    anna, cleo = IOSApp("anna"), IOSApp("cleo")
    cleo.meet_again(anna)
    settings = {"Role": "mailbox", "CourierEnvelopes": "400"}
    async with node_alone(stage, **settings) as node:
        node_id = await node.peer_id()
        assert (await node.properties())["Role"] == "mailbox"
        async with phone(stage, anna, 0) as one:
            await meet(one, node, Way.FOUND)
            anna.deposit(bytes.fromhex(node_id), cleo.identity.noise_key, "a letter")
            for _ in range(LETTERS - 1):
                anna.deposit(bytes.fromhex(node_id), Identity().noise_key, "a letter for somebody else")
            await node.until_is("Carried", LETTERS)
            anna.deposit(bytes.fromhex(node_id), Identity().noise_key, "one too many")
            await node.until_counts("CourierTooManyOfDepositor", 1)
            check(anna)
        await node.stop()
        await node.start(**settings)
        await node.until_is("Carried", LETTERS)
        async with phone(stage, cleo, 1) as other:
            await meet(other, node, Way.FOUND)
            await until_read(cleo, "a letter")
            await node.until_is("Carried", LETTERS - 1)
            # Of the others she has as many copies as an app has places for one peer.
            await cleo.until("has copies", lambda: len(cleo.bag) == 2, limit(40))
            check(cleo)
        assert not [message for message in await node.messages() if "letter" in message.text], "the mailbox has read it"
        await node.call("Wipe", "s", node_id)
        await node.until_is("Carried", 0)
        await node.stop()
        await node.start(**settings)
        await node.service.until_radio("ready")
        found = await node.properties()
        assert found["Carried"] == 0 and found["PeerId"] not in ("", node_id), (found["Carried"], found["PeerId"])


@suite.test("An iPhone and an Android phone talk through a relay, which shows and keeps nothing of it, and says nothing", limit=180)
async def relay(stage: Stage) -> None:
    async with two_over_a_node(stage, Role="relay") as (node, first, second):
        for app, peer in ((first, second), (second, first)):
            await talk_across(app, peer)
        assert await node.messages() == []
        assert not any(known["Session"] for known in (await node.peers()).values())
        for method, *arguments in (("Say", "s", "a word"), ("Tell", "ss", first.id.hex(), "a word")):
            try:
                await node.call(method, *arguments)
                raise AssertionError(f"a relay has taken {method}")
            except DBusError as error:
                assert error.type == "org.earshot.Error.NotSupported", error.type


@suite.test("A node on a battery listens two seconds of thirty, finds an iPhone all the same, and talks with it", limit=300)
async def battery(stage: Stage) -> None:
    app = IOSApp("phone")
    async with node_alone(stage, Power="battery") as node:
        await node.until("is advertised for 65 s", lambda: has_used(node, "AdvertiseSeconds", 65), limit(120))
        alone = (await node.counters())["ScanSeconds"]
        # Three times two seconds, and what the start and the counting in whole seconds add.
        assert 2 <= alone <= 8, alone
        async with switched_on(stage, app) as (radio,):
            await radio.advertise()
            began = time.monotonic()
            # A virtual controller misses a connection now and then; the next try is in the next two seconds of listening.
            await app.until("is found", lambda: app.links, limit(130))
            found = time.monotonic() - began
            await meet(radio, node, Way.FOUND)
            await node.say("on a battery")
            await app.until("hears", lambda: app.has_line("on a battery"), limit(30))
            app.say("on a telephone")
            await node.until_heard("on a telephone")
            check(app)
        stage.measure(f"alone {alone} s of listening in 65 s; found after {found:.0f} s")


async def has_used(node: Node, name: str, seconds: int) -> bool:
    return (await node.counters())[name] >= seconds
