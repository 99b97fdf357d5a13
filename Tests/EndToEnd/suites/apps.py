"""Phones with the Bitchat apps beside a node: the iOS app and the Android app, each once as the central and once as the peripheral.
The phones share no code with the service (`phones/mesh`)."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any

from harness.limits import limit
from harness.machine import FOURTH, SECOND, THIRD
from harness.node import PEER, Node
from harness.radio import address
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.air import MeshLink
from phones.mesh.app import App
from phones.mesh.apps import AndroidApp, IOSApp
from phones.mesh.packets import Packet
from phones.mesh.radio import MeshRadio, Neighbour
from phones.phone import LinkLost, Phone

suite = Suite("apps")

NODE, ADAPTERS = SECOND, (THIRD, FOURTH)


class Way(Enum):
    """The side that connects."""

    COMES = "that connects"
    FOUND = "that is connected to"


@asynccontextmanager
async def node_alone(stage: Stage, **mesh: str) -> AsyncIterator[Node]:
    """One node without stored state."""
    await stage.set_radio()
    await stage.kiosk.stop()
    node = await Node.make(stage.machine, "node", NODE)
    try:
        await node.start(**mesh)
        await node.service.until_radio("ready")
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def switched_on(stage: Stage, *apps: App) -> AsyncIterator[list[MeshRadio]]:
    """These apps, each on a phone of its own."""
    radios = []
    try:
        for number, (adapter, app) in enumerate(zip(ADAPTERS, apps)):
            await stage.machine.free_adapter(adapter)
            radios.append(MeshRadio(Phone(adapter, f"F5:F1:F2:F3:F5:{number:02X}"), app))
            await radios[-1].switch_on()
        yield radios
    finally:
        for radio in radios:
            await radio.switch_off()


async def meet(radio: MeshRadio, node: Node, way: Way) -> Neighbour:
    """Connects the phone and the node, until they know each other."""
    if way is Way.FOUND:
        await radio.advertise()
    else:
        await come(radio)
    await acquainted(radio.app, node)
    return next(link for link in radio.neighbours.values() if link in radio.app.links)


async def come(radio: MeshRadio) -> Neighbour:
    """Connects. A virtual controller sometimes misses a connection, and an app retries."""
    for _ in range(3):
        try:
            return await radio.connect(await radio.find(address(NODE)))
        except (LinkLost, TimeoutError):
            await asyncio.sleep(1)
    return await radio.connect(await radio.find(address(NODE)))


async def acquainted(app: App, node: Node) -> None:
    own = bytes.fromhex(await node.peer_id())
    await app.until("hears the node's announce", lambda: own in app.peers, limit(40))
    # The node may know the phone from an earlier link.
    await until_peer(node, app, "the phone is the node's neighbour", "Direct", True, 70)
    peer = await node.until_knows(app.id.hex())
    assert (peer["Nickname"], peer["Fingerprint"]) == (app.nickname, app.identity.fingerprint), peer
    assert app.peers[own].announce.nickname == node.name


def text(words: str, size: int) -> str:
    """A text of this number of bytes that compresses well."""
    return (words + " and the relay on the roof is up again" * (size // 39 + 1))[: size - 1] + "."


async def chat(app: App, node: Node, *, own: int, others: int) -> None:
    """Public and private messages each way, and both receipts each way.

    own, others: bytes of the private message of the phone, and of the node."""
    node_id = bytes.fromhex(await node.peer_id())
    for size in (20, 300, 1500):
        line = text(f"{app.kind} {size}", size)
        app.say(line)
        assert (await node.until_heard(line)).sender == app.id.hex()
        line = text(f"node {size}", size)
        await node.say(line)
        await app.until(f"hears {size} bytes", lambda: app.has_line(line), limit(30))
    await tell_node(app, node, text("from the phone", own))
    content = text("from the node", others)
    number = await node.tell(app.id.hex(), content)
    heard = await app.until("is told", lambda: [heard for heard in app.private if heard.text == content], limit(30))
    await node.until_state(number, "delivered", "read")
    app.read(heard[0])
    await node.until_state(number, "read")
    assert app.peers[node_id].session is not None


async def tell_node(app: App, node: Node, content: str) -> None:
    """Sends a private message to the node, and waits for both its receipts."""
    message_id = app.tell(bytes.fromhex(await node.peer_id()), content)
    heard = await node.until_heard(content)
    assert heard.conversation == heard.sender == app.id.hex(), heard
    await app.until("hears that it arrived", lambda: "delivered" in app.receipts[message_id], limit(30))
    await node.mark_read(heard.number)
    await app.until("hears that it was read", lambda: app.receipts[message_id] == ["delivered", "read"], limit(30))


async def peer_call(node: Node, app: App, method: str, signature: str, *arguments: Any) -> Any:
    path = f"/org/earshot/mesh/peer{app.id.hex()}"
    return await node.service.call(path, PEER, method, signature, *arguments)


async def until_peer(node: Node, app: App, what: str, key: str, value: Any, timeout: float = 30) -> None:
    """Polls a peer, because no signal reports its changes."""
    peer: dict[str, Any] = {}
    try:
        async with asyncio.timeout(limit(timeout)):
            while (peer := (await node.peers()).get(app.id.hex(), {})).get(key) != value:
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise TimeoutError(f"{what}: not within {limit(timeout):.0f} s; it is {peer}") from None


async def befriend(app: App, node: Node) -> None:
    """Each marks the other as favourite, and removes the mark."""
    node_id = bytes.fromhex(await node.peer_id())
    app.favour(node_id)
    await until_peer(node, app, "the phone likes the node", "FavouriteOfPeer", True)
    await peer_call(node, app, "Favourite", "b", True)
    await app.until("is a favourite", lambda: app.peers[node_id].likes_us, limit(30))
    app.favour(node_id, False)
    await until_peer(node, app, "the phone likes the node no longer", "FavouriteOfPeer", False)
    await peer_call(node, app, "Favourite", "b", False)
    await app.until("is no favourite", lambda: not app.peers[node_id].likes_us, limit(30))


async def verify(app: App, node: Node) -> None:
    """Each reads the other's verification code."""
    node_id = app.verify(await node.call("VerificationCode"))
    await app.until("has the node's proof", lambda: app.peers[node_id].is_verified, limit(30))
    assert await node.call("VerifyCode", "s", app.code()) == app.id.hex()
    await until_peer(node, app, "the node has verified the phone", "Verified", True)


def check(app: App, beside: App | None = None) -> None:
    """Checks that the node has sent nothing that an app would not send, and that the app refused no packet that it should have
    accepted.

    beside: another phone in range. Android sends old packets without the RSR mark."""
    assert not app.faults, app.faults
    harmless = HARMLESS | ({"clock"} if beside is not None and beside.kind == "Android" else set())
    refused = {why: count for why, count in app.refused.items() if why not in harmless}
    assert not refused, refused


#: Packets of a correct node that an app may refuse. Before BlueZ 5.76 values for one client and for all take two paths over a link, so
#: a request may come before the announce; the node repeats it.
HARMLESS = {
    "request before an announce", "ciphertext of a session of before",
    "copy", "own packet", "private message twice", "request after eight in 30 s",
    "handshake of both, and this ID is the smaller", "handshake without an answer",
}

APPS: tuple[type[App], ...] = (IOSApp, AndroidApp)


def loses_512(stage: Stage, app: App, way: Way) -> bool:
    """Whether bluetoothd drops an app's writes of 512 bytes (docs/facts/bluez.md). The app's notifications are not lost."""
    return stage.machine.bluez < (5, 69) and way is Way.COMES and app.kind == "iOS"


def _add(make: type[App], way: Way) -> None:
    @suite.test(f"An {make.kind} phone {way.value} and a node talk to all and in private, with both receipts each way", limit=120)
    async def talk(stage: Stage) -> None:
        app = make("phone")
        async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
            neighbour = await meet(radio, node, way)
            await chat(app, node, own=150 if loses_512(stage, app, way) else 200, others=200)
            await befriend(app, node)
            await verify(app, node)
            check(app)
            reason = (await node.properties())["Reason"]
            assert "system-alias" in reason and "Privacy=device" in reason, reason
            stage.measure(", ".join(f"{count} {how}" for how, count in neighbour.counts.items()))

    @suite.test(f"An {make.kind} phone {way.value} and a node tell each other what was said while it was away", limit=150)
    async def absence(stage: Stage) -> None:
        app = make("phone")
        async with node_alone(stage) as node:
            async with switched_on(stage, app) as (radio,):
                await meet(radio, node, way)
                check(app)
            for number in range(3):
                await node.say(f"said {number} to nobody")
            again = make("phone", app.identity)
            for number in range(3):
                again.say(f"said {number} elsewhere")
            async with switched_on(stage, again) as (radio,):
                await meet(radio, node, way)
                for number in range(3):
                    missed = f"said {number} to nobody"
                    await again.until("has missed nothing", lambda: again.has_line(missed), limit(70))
                    await node.until_heard(f"said {number} elsewhere", timeout=70)
                check(again)


for _make in APPS:
    for _way in Way:
        _add(_make, _way)


@suite.test("A private text of 200 bytes arrives from an Android phone that connects, whose padded packet has 512", limit=90)
async def padded(stage: Stage) -> None:
    app = AndroidApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        neighbour = await meet(radio, node, Way.COMES)
        await tell_node(app, node, text("from the phone", 200))
        check(app)
        if stage.machine.bluez < (5, 69):
            assert neighbour.is_subscribed, "the node has not subscribed at the phone"
        stage.measure("by notification" if neighbour.is_subscribed else "written")


class ForgetfulApp(IOSApp):
    """An app that does not answer sync requests."""

    def _answer_sync(self, link: MeshLink, packet: Packet) -> None:
        pass


@suite.test("Twenty lines that an iPhone writes at one time, right behind its announce, all arrive", limit=120)
async def burst(stage: Stage) -> None:
    app = ForgetfulApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        await come(radio)
        await app.until("has a link", lambda: app.links, limit(30))
        app.announce()
        lines = [text(f"line {number} of", 60 + 5 * number) for number in range(20)]
        for line in lines:
            app.say(line)
        for line in lines:
            await node.until_heard(line)
        check(app)


@suite.test("A private text of 200 bytes from an iPhone that connects arrives, and before BlueZ 5.69 is lost, which is said", limit=120)
async def lost_from_iphone(stage: Stage) -> None:
    app = IOSApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        await meet(radio, node, Way.COMES)
        if not loses_512(stage, app, Way.COMES):
            await tell_node(app, node, text("from the phone", 200))
            check(app)
            return
        app.tell(bytes.fromhex(await node.peer_id()), text("too long", 200))
        await tell_node(app, node, text("short", 150))
        assert not [message for message in await node.messages() if message.text.startswith("too long")], "it was not lost"
        limits = (await node.service.manager())["RadioLimits"]
        assert any("512" in sentence for sentence in limits), limits
        reason = (await node.properties())["Reason"]
        assert "166" in reason and "Debian 13" in reason, reason


@asynccontextmanager
async def two_over_a_node(stage: Stage, **mesh: str) -> AsyncIterator[tuple[Node, App, App]]:
    """An iPhone and an Android phone that have a link with the node alone, and know each other; at the end neither has refused
    a packet of the other."""
    first, second = IOSApp("iphone"), AndroidApp("android")
    async with node_alone(stage, **mesh) as node, switched_on(stage, first, second) as (one, other):
        await meet(one, node, Way.COMES)
        await meet(other, node, Way.FOUND)
        for app, peer in ((first, second), (second, first)):
            await app.until("knows the other phone", lambda: peer.id in app.peers, limit(40))
            # Over two hops, or in a sync answer, which does not show the count.
            assert app.peers[peer.id].hops in (0, 2), app.peers[peer.id].hops
        yield node, first, second
        for app, peer in ((first, second), (second, first)):
            check(app, peer)


async def talk_across(app: App, peer: App) -> tuple[list[str], str]:
    """Public messages and a private one, with both its receipts, from one phone to another; returns the texts."""
    # 1,500 bytes are several fragments, which a node relays unchanged.
    lines = [text(f"{app.kind} {size}", size) for size in (20, 300, 1500)]
    for line in lines:
        app.say(line)
        await peer.until(f"hears {len(line)} bytes", lambda: peer.has_line(line), limit(30))
    content = text(f"private from {app.kind}", 90)
    message_id = app.tell(peer.id, content)
    heard = await peer.until("is told", lambda: [heard for heard in peer.private if heard.text == content], limit(30))
    peer.read(heard[0])
    await app.until("has both receipts", lambda: app.receipts[message_id] == ["delivered", "read"], limit(30))
    return lines, content


@suite.test("An iPhone and an Android phone that have a link with the node alone talk through it, to all and in private", limit=150)
async def through(stage: Stage) -> None:
    async with two_over_a_node(stage) as (node, first, second):
        for app, peer in ((first, second), (second, first)):
            lines, content = await talk_across(app, peer)
            for line in lines:
                await node.until_heard(line)
            assert not [message for message in await node.messages() if message.text == content]


@suite.test("A phone that stays hears the node after another one has left, whichever of them came first", limit=150)
async def stays(stage: Stage) -> None:
    first, second = IOSApp("iphone"), AndroidApp("android")
    async with node_alone(stage) as node, switched_on(stage, first, second) as radios:
        links = [await meet(radio, node, Way.COMES) for radio in radios]
        for gone, app in ((1, first), (0, second)):
            client = links[gone].client
            assert client is not None
            await client.disconnect()
            await until_peer(node, radios[gone].app, "the node knows that it has left", "Direct", False)
            for size in (20, 1500):
                line = text(f"to {app.kind} {size}", size)
                await node.say(line)
                await app.until(f"hears {size} bytes", lambda: app.has_line(line), limit(30))
            content = text(f"to {app.kind} in private", 90)
            number = await node.tell(app.id.hex(), content)
            await app.until("is told", lambda: any(heard.text == content for heard in app.private), limit(30))
            await node.until_state(number, "delivered", "read")
            links[gone] = await meet(radios[gone], node, Way.COMES)
        for app, peer in ((first, second), (second, first)):
            check(app, peer)


@suite.test("An iPhone whose clock is off by three minutes and a node do not hear each other, and do when it is right", limit=120)
async def clock(stage: Stage) -> None:
    app = IOSApp("phone")
    app.clock_error = 180
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        await come(radio)
        await app.until("refuses the node's announce", lambda: app.refused["clock"] > 0, limit(40))
        assert not app.peers and app.id.hex() not in await node.peers()
        app.clock_error = 0
        app.announce()
        await node.call("Announce")
        await acquainted(app, node)
        app.say("now it is right")
        await node.until_heard("now it is right")
