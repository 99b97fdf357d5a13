"""Envelopes that iPhones and a node carry for others, and pings; and those that an Android phone relays without knowing their type."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bumble.core import TimeoutError as BumbleTimeoutError
from bumble.hci import Address, HCI_Error
from dbus_fast import DBusError

from harness.limits import limit
from harness.radio import part
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.app import App
from phones.mesh.apps import AndroidApp, IOSApp
from phones.mesh.packets import Type
from phones.mesh.radio import MeshRadio
from phones.mesh.values import Identity
from phones.phone import LinkLost, Phone
from suites.apps import ADAPTERS, NODE, Way, check, meet, node_alone, switched_on, until_peer

suite = Suite("mail")


@asynccontextmanager
async def phone(stage: Stage, app: App, place: int) -> AsyncIterator[MeshRadio]:
    """This app on one of the two phones, given by its number."""
    adapter = ADAPTERS[place]
    await stage.machine.free_adapter(adapter)
    radio = MeshRadio(Phone(adapter, address_of(place)), app)
    await radio.switch_on()
    try:
        yield radio
    finally:
        await radio.switch_off()


def address_of(place: int) -> str:
    return f"F5:F1:F2:F3:F5:{place:02X}"


async def join(radio: MeshRadio, place: int) -> None:
    """Connects to the phone of this number, which advertises. No scan precedes it: an iPhone answers no scan request, and the virtual
    controllers do not report such advertisers to a phone."""
    for _ in range(3):
        try:
            await radio.connect(Address(address_of(place)))
            return
        except (LinkLost, HCI_Error, BumbleTimeoutError, TimeoutError):
            await asyncio.sleep(1)
    await radio.connect(Address(address_of(place)))


@asynccontextmanager
async def apart() -> AsyncIterator[None]:
    """Restores the range of all phones at its end."""
    try:
        yield
    finally:
        part(())


async def know(app: App, *others: App) -> None:
    for other in others:
        await app.until(f"knows {other.nickname}", lambda: other.id in app.peers, limit(60))


async def until_read(app: App, content: str) -> None:
    heard = await app.until(f"is told {content!r}", lambda: [each for each in app.private if each.text == content], limit(60))
    assert len(heard) == 1, heard
    app.read(heard[0])


@suite.test("An iPhone and a node answer each other's pings, five in ten seconds, and an Android phone answers none", limit=120)
async def pings(stage: Stage) -> None:
    first, second = IOSApp("iphone"), AndroidApp("android")
    async with node_alone(stage) as node, switched_on(stage, first, second) as (one, other):
        await meet(one, node, Way.FOUND)
        await meet(other, node, Way.COMES)
        node_id = bytes.fromhex(await node.peer_id())
        milliseconds, hops = await node.call("Ping", "s", first.id.hex())
        assert hops == 1
        nonces = [first.ping(node_id) for _ in range(7)]
        await first.until("has five answers", lambda: len(first.pongs) >= 5, limit(20))
        # Later messages arrive after them.
        await node.say("after the pings")
        await first.until("hears", lambda: first.has_line("after the pings"), limit(20))
        assert [first.pongs.get(nonce) for nonce in nonces] == [1] * 5 + [None] * 2, first.pongs
        assert (await node.counters())["RefusedPings"] == 2
        try:
            await node.call("Ping", "s", second.id.hex())
            raise AssertionError("an Android phone has answered")
        except DBusError as error:
            assert error.type == "org.earshot.Error.Timeout", error.type
        for app in (first, second):
            check(app)
        stage.measure(f"{milliseconds} ms")


@suite.test("An iPhone's letter waits at a node for another iPhone, half of its copies at a third one, and is read once", limit=300)
async def carried(stage: Stage) -> None:
    anna, ben, cleo = (IOSApp(name) for name in ("anna", "ben", "cleo"))
    async with node_alone(stage) as node:
        node_id = bytes.fromhex(await node.peer_id())
        async with phone(stage, anna, 0) as one:
            async with phone(stage, cleo, 1) as other:
                await meet(one, node, Way.FOUND)
                await meet(other, node, Way.FOUND)
                await know(anna, cleo)
                await know(cleo, anna)
            letter = anna.deposit(node_id, cleo.identity.noise_key, "a letter")
            await node.until_is("Carried", 1)
            # Two envelopes of a peer that is not a favourite are accepted.
            for number in (2, 3):
                anna.deposit(node_id, Identity().noise_key, f"letter {number}")
            await node.until_counts("CourierTooManyOfDepositor", 1)
            assert (await node.properties())["Carried"] == 2
        async with phone(stage, ben, 0) as one:
            await meet(one, node, Way.FOUND)
            await ben.until("has copies", lambda: len(ben.bag) == 2, limit(40))
            assert [held.envelope.copies for held in ben.bag] == [2, 2], ben.bag
            assert {held.depositor for held in ben.bag} == {node_id}
        back = cleo.again()
        async with phone(stage, back, 1) as other:
            await meet(other, node, Way.FOUND)
            await until_read(back, "a letter")
            returned = anna.again()
            async with phone(stage, returned, 0) as one:
                # The delivery states arrive as usual, when both are in range.
                await meet(one, node, Way.FOUND)
                await returned.until("has both ticks", lambda: returned.receipts[letter] == ["delivered", "read"], limit(90))
                check(returned)
            check(back)
        for app in (anna, ben, cleo):
            check(app)
        assert not [message for message in await node.messages() if "letter" in message.text], "the node has read it"


@suite.test("A node's letter goes with an iPhone to another iPhone that the node does not hear, and its ticks come back", limit=300)
async def given(stage: Stage) -> None:
    ben, cleo = IOSApp("ben"), IOSApp("cleo")
    async with node_alone(stage) as node, apart(), phone(stage, ben, 0) as one:
        node_id = bytes.fromhex(await node.peer_id())
        await meet(one, node, Way.COMES)
        async with phone(stage, cleo, 1) as other:
            await meet(other, node, Way.FOUND)
            await know(cleo, ben)
        await until_peer(node, cleo, "cleo is gone", "Direct", False)
        number = await node.tell(cleo.id.hex(), "a letter")
        await ben.until("has it", lambda: ben.bag, limit(90))
        assert [(held.envelope.copies, held.depositor) for held in ben.bag] == [(4, node_id)]
        assert (await node.until_state(number, "sent")).state == "sent"
        # Ben moves into range of Cleo.
        part([(NODE, ADAPTERS[0]), (NODE, ADAPTERS[1])])
        await one.phone.hang_up()
        back = cleo.again()
        async with phone(stage, back, 1) as other:
            await one.advertise()
            await join(other, 0)
            await until_read(back, "a letter")
            assert not ben.bag, "he keeps it"
            assert (await node.until_state(number, "sent")).state == "sent"
            # Cleo returns.
            await one.hide()
            await other.phone.hang_up()
            part(())
            await meet(other, node, Way.FOUND)
            await node.until_state(number, "read", timeout=90)
            check(back)
        for app in (ben, cleo):
            check(app)


@suite.test("An iPhone's letter to a node goes with another iPhone; the node opens it once, and she hears that it was read", limit=300)
async def opened(stage: Stage) -> None:
    anna, ben = IOSApp("anna"), IOSApp("ben")
    async with node_alone(stage) as node, apart(), phone(stage, anna, 0) as one, phone(stage, ben, 1) as other:
        node_id = bytes.fromhex(await node.peer_id())
        await meet(one, node, Way.COMES)
        # When Ben meets Cleo, the node is out of range of both.
        part([(NODE, ADAPTERS[0]), (NODE, ADAPTERS[1])])
        await one.phone.hang_up()
        await one.advertise()
        await join(other, 0)
        await know(anna, ben)
        await know(ben, anna)
        letter = anna.deposit(ben.id, anna.peers[node_id].announce.noise_key, "a letter")
        await ben.until("has it", lambda: ben.bag, limit(40))
        # Ben moves into range of the node.
        await one.hide()
        await other.phone.hang_up()
        part(())
        await meet(other, node, Way.FOUND)
        heard = await node.until_heard("a letter", timeout=60)
        assert heard.conversation == heard.sender == anna.id.hex(), heard
        await node.until_counts("CourierOpened", 1)
        assert letter not in anna.receipts, "she is not there, and was told"
        # Cleo returns.
        await meet(one, node, Way.COMES)
        await node.mark_read(heard.number)
        # When the message was already read by then, only the read receipt is sent.
        await anna.until("knows that it was read", lambda: anna.receipts[letter][-1:] == ["read"], limit(90))
        assert len([message for message in await node.messages() if message.text == "a letter"]) == 1
        for app in (anna, ben):
            check(app)


@suite.test("An Android phone passes on what it does not know: pings both ways, and a letter to who is behind it", limit=240)
async def passed_on(stage: Stage) -> None:
    anna, droid, cleo = IOSApp("anna"), AndroidApp("droid"), IOSApp("cleo")
    async with node_alone(stage) as node, apart():
        node_id = bytes.fromhex(await node.peer_id())
        async with phone(stage, anna, 0) as one:
            await meet(one, node, Way.FOUND)
            anna.deposit(node_id, cleo.identity.noise_key, "a letter")
            await node.until_is("Carried", 1)
            known = anna.peers[node_id]
        # She has met both before: the envelope arrives before the announces.
        cleo.meet_again(anna)
        cleo.remember(known.announce, known.packet)
        part([(NODE, ADAPTERS[1])])
        async with phone(stage, droid, 0) as one, phone(stage, cleo, 1) as other:
            await meet(one, node, Way.COMES)
            await one.advertise()
            await join(other, 0)
            await know(cleo, droid)
            await until_read(cleo, "a letter")
            assert droid.relayed[Type.COURIER] > 0
            await until_peer(node, cleo, "cleo is two hops away", "Hops", 2, 60)
            assert (await node.call("Ping", "s", cleo.id.hex()))[1] == 2
            nonce = cleo.ping(node_id)
            await cleo.until("has an answer", lambda: cleo.pongs.get(nonce) == 2, limit(20))
            assert droid.relayed[Type.PING] == 2 and droid.relayed[Type.PONG] == 2, droid.relayed
            # The node keeps the envelope: a sender over several hops does not know whether it arrives.
            assert (await node.properties())["Carried"] == 1
            for app in (anna, droid, cleo):
                check(app, droid)
