"""Files between the Bitchat phones and a node, in both directions, public and private."""
from __future__ import annotations

import asyncio
import random
import time
import uuid

from harness.limits import limit
from harness.node import Node
from harness.runner import Suite
from harness.stage import Stage
from phones.mesh.air import Received
from phones.mesh.app import App
from phones.mesh.apps import AndroidApp, IOSApp
from phones.mesh.media import media_id
from phones.mesh.packets import Type
from phones.mesh.parcels import File
from suites.apps import APPS, Way, check, loses_512, meet, node_alone, switched_on, text, two_over_a_node

suite = Suite("media")
OCTETS = "application/octet-stream"


def noise(name: str, size: int) -> bytes:
    """This number of incompressible bytes, different for each name."""
    return random.Random(name).randbytes(size)


def picture(size: int = 30_000) -> tuple[str, bytes]:
    """A picture with a name in the apps' form, for which receipts exist."""
    name = f"img_{str(uuid.uuid4()).upper()}.jpg"
    return name, b"\xff\xd8\xff\xe0" + noise(name, size - 4)


async def until_has(app: App, name: str, timeout: float = 60) -> Received:
    found = await app.until(f"has {name}", lambda: [file for file in app.files if file.name == name], limit(timeout))
    return found[0]


async def from_phone(app: App, node: Node, name: str, content: bytes, mime: str = OCTETS, *, private: bool) -> str | None:
    """Waits until the node has a file of the phone; returns the ID in its receipt."""
    receipt = app.send_file(File(name, mime, content), bytes.fromhex(await node.peer_id()) if private else None)
    try:
        file = await node.until_file(name, timeout=90)
    except TimeoutError as late:
        counters = {each: count for each, count in (await node.counters()).items() if count}
        raise TimeoutError(f"{late}; {[link.state for link in app.links]}; {counters}") from None
    assert file["Content"] == content, f"{name} came with {len(file['Content'])} bytes"
    assert (file["Private"], file["Peer"], file["Mime"]) == (private, app.id.hex(), mime), file
    return receipt


async def from_node(app: App, node: Node, name: str, content: bytes, mime: str = OCTETS, *, private: bool) -> str:
    """Waits until the phone has a file of the node; returns the path of its object."""
    path = await node.send_file(content, name, mime, app.id.hex() if private else "")
    file = await until_has(app, name, 90)
    assert file.content == content, f"{name} came with {len(file.content)} bytes"
    assert (file.is_private, file.sender.hex(), file.mime) == (private, await node.peer_id(), mime), file
    return path


async def know_each_other(app: App, node: Node) -> None:
    """Waits for a session in which each side has announced its capabilities."""
    node_id = bytes.fromhex(await node.peer_id())
    if app.peers[node_id].session is None:
        app.tell(node_id, "hello")
    await app.until("has the node's state", lambda: app.peers[node_id].capabilities is not None, limit(30))


async def both_ways(app: App, node: Node, size: int, *, first_private: bool) -> None:
    """One public and one private file at the same time."""
    kind = f"{app.kind} {size} {first_private}"
    # Both run at once; the first failure is reported.
    _, path = await asyncio.gather(
        from_phone(app, node, f"from {kind}", noise(kind, size), private=first_private),
        from_node(app, node, f"to {kind}", noise("to " + kind, size), private=not first_private),
    )
    # Files with these names have no receipts.
    await node.until_file_is(path, "sent")


def _add(make: type[App], way: Way) -> None:
    @suite.test(f"An {make.kind} phone {way.value} and a node give each other files of 1 byte and 100 KB, to all and in private", limit=200)
    async def files(stage: Stage) -> None:
        app = make("phone")
        async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
            neighbour = await meet(radio, node, way)
            await know_each_other(app, node)
            for size in (1, 100_000):
                await both_ways(app, node, size, first_private=False)
                # An iPhone writes private packets with 512 bytes.
                if size > 400 and loses_512(stage, app, way):
                    app.send_file(File("lost", OCTETS, noise("lost", size)), bytes.fromhex(await node.peer_id()))
                    await from_node(app, node, "private", noise("private", size), private=True)
                    await from_phone(app, node, "later", noise("later", 100), private=False)
                    assert not [file for file in (await node.files()).values() if file["Name"] == "lost"], "it came: the table says it does not"
                else:
                    await both_ways(app, node, size, first_private=True)
            check(app)
            stage.measure(", ".join(f"{count} {how}" for how, count in neighbour.counts.items()))


for _make in APPS:
    for _way in Way:
        _add(_make, _way)


@suite.test("A picture that an iPhone and a node give each other in private is acknowledged, by the name that the app gives it", limit=120)
async def receipts(stage: Stage) -> None:
    app = IOSApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        await meet(radio, node, Way.FOUND)
        await know_each_other(app, node)
        name, content = picture()
        receipt = await from_phone(app, node, name, content, "image/jpeg", private=True)
        assert receipt is not None
        await app.until("hears that it arrived", lambda: app.receipts[receipt] == ["delivered"], limit(30))
        name, content = picture()
        path = await from_node(app, node, name, content, "image/jpeg", private=True)
        await node.until_file_is(path, "delivered")
        assert media_id(bytes.fromhex(await node.peer_id()), app.id, name)
        check(app)


@suite.test("A picture that a node gives an Android phone in private ends as sent, whatever its name: the phone names no receipts of files", limit=90)
async def no_receipts(stage: Stage) -> None:
    app = AndroidApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        await meet(radio, node, Way.FOUND)
        await know_each_other(app, node)
        name, content = picture()
        path = await from_node(app, node, name, content, "image/jpeg", private=True)
        await node.until_file_is(path, "sent")
        check(app)


@suite.test("A text file that is compressed goes both ways, but in public not to Android, and not from it to iOS, which compress otherwise", limit=150)
async def compressed(stage: Stage) -> None:
    words = (text("a text file", 5000) + " ").encode() + bytes(f"{random.Random(7).choices(range(1000), k=3000)}", "ascii")
    first, second = IOSApp("iphone"), AndroidApp("android")
    async with node_alone(stage) as node, switched_on(stage, first, second) as (one, other):
        await meet(one, node, Way.FOUND)
        await meet(other, node, Way.FOUND)
        for app in (first, second):
            await know_each_other(app, node)
            await from_phone(app, node, f"private {app.kind}", words, private=True)
            await from_phone(app, node, f"public {app.kind}", words, private=False)
            await from_node(app, node, f"private to {app.kind}", words, private=True)
        path = await node.send_file(words, "public", OCTETS)
        assert (await until_has(first, "public")).content == words
        await node.until_file_is(path, "sent")
        await node.say("and after that")
        # The apps' own fault: each checks its own encoding of the file, and not the received bytes. The node's encoding is that of iOS.
        await second.until("hears what came later", lambda: second.has_line("and after that"), limit(60))
        assert second.refused.pop("signature", 0) >= 2 and not [file for file in second.files if not file.is_private], second.files
        assert first.refused.pop("signature", 0) >= 1 and not [file for file in first.files if file.sender == second.id], first.files
        for app, peer in ((first, second), (second, first)):
            check(app, peer)


@suite.test("An iPhone and an Android phone that have a link with the node alone give each other files, to all and in private", limit=300)
async def through(stage: Stage) -> None:
    async with two_over_a_node(stage) as (_, first, second):
        first.tell(second.id, "hello")
        for app, peer in ((first, second), (second, first)):
            await app.until("has the other's state", lambda: app.peers[peer.id].capabilities is not None, limit(30))
            for size in (1, 100_000):
                await from_app_to_app(app, peer, size, private=False)
                # An iPhone that connects writes private packets with 512 bytes.
                if size == 1 or not loses_512(stage, app, Way.COMES if app is first else Way.FOUND):
                    await from_app_to_app(app, peer, size, private=True)


async def from_app_to_app(app: App, peer: App, size: int, *, private: bool) -> None:
    name = f"{app.kind} {size} {private}"
    app.send_file(File(name, OCTETS, noise(name, size)), peer.id if private else None)
    file = await until_has(peer, name, 90)
    assert (file.content, file.sender, file.is_private) == (noise(name, size), app.id, private)


@suite.test("An Android phone drops a file of more than 256 fragments, and takes one of 256", limit=120)
async def too_many(stage: Stage) -> None:
    app = AndroidApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        await meet(radio, node, Way.COMES)
        path = await node.send_file(noise("many", 121_000), "many")
        await node.until_file_is(path, "sent", timeout=90)
        await app.until("refuses each", lambda: app.refused["too many fragments"] > 256, limit(60))
        assert not app.files
        await from_node(app, node, "few", noise("few", 110_000), private=False)
        # The link keeps the order: by now the last packet of the first file has been refused.
        del app.refused["too many fragments"]
        check(app)


def _add_largest(make: type[App]) -> None:
    @suite.test(f"An {make.kind} phone gives a node 1 MiB, or 200 kB where the guest is slow, to all and in private", limit=400)
    async def largest(stage: Stage) -> None:
        """An iPhone also gives up a file that is incomplete 30 s after its first fragment."""
        app = make("phone")
        # After two minutes packets are too old for both sides, so a slow or waiting guest has no more time.
        trial, size = 100_000, 1 << 20
        async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
            await meet(radio, node, Way.FOUND)
            await know_each_other(app, node)
            node_id = bytes.fromhex(await node.peer_id())
            begin = time.monotonic()
            await from_phone(app, node, "trial", noise("trial", trial), private=True)
            is_fast = (time.monotonic() - begin) * size / trial < 80
            if not is_fast:
                size = 2 * trial
            for private in (False, True):
                name = f"large {private}"
                app.send_file(File(name, OCTETS, noise(name, size)), node_id if private else None)
                file = await node.until_file(name, timeout=150)
                assert file["Content"] == noise(name, size) and file["Private"] == private
            if is_fast and isinstance(app, IOSApp):
                # By the guest's clock, however slow it is: one each 25 ms takes 57 s.
                app.assembly.life = app.assembly.LIFE
                await node.until_file_is(await node.send_file(noise("large", size), "large"), "sent", timeout=150)
                assert not app.files, "it has a file of which the first fragment came more than 30 s before the last"
                assert app.assembly.given_up, "nothing of it came"
            check(app)
            stage.measure(f"{size} bytes" + ("" if is_fast else "; for 1 MiB the guest was too slow, and what the app gives up was not tried"))


for _make in APPS:
    _add_largest(_make)


@suite.test("A node that misses fragments of an iPhone's file asks the iPhone for them alone, and has the file", limit=90)
async def mended(stage: Stage) -> None:
    app = IOSApp("phone")
    async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
        neighbour = await meet(radio, node, Way.FOUND)
        carry, dropped = neighbour.carry, []

        async def lossy(frame: bytes) -> None:
            """Loses three fragments once."""
            if frame[1] == Type.FRAGMENT and frame[2] > 0 and len(dropped) < 3 and frame[31] % 9 == 4:
                dropped.append(frame)
                return
            await carry(frame)

        neighbour.carry = lossy
        await from_phone(app, node, "mended", noise("mended", 40_000), private=False)
        assert len(dropped) == 3, len(dropped)
        check(app)


@suite.test("A file that a node gave to all while an iPhone was away comes to it by sync", limit=120)
async def missed(stage: Stage) -> None:
    app = IOSApp("phone")
    async with node_alone(stage) as node:
        async with switched_on(stage, app) as (radio,):
            await meet(radio, node, Way.FOUND)
            witness = AndroidApp("witness")
            await radio.hide()
        async with switched_on(stage, witness) as (radio,):
            # Without a peer in range it is not sent.
            await meet(radio, node, Way.FOUND)
            await from_node(witness, node, "missed", noise("missed", 20_000), private=False)
        back = app.again()
        async with switched_on(stage, back) as (radio,):
            await meet(radio, node, Way.FOUND)
            assert (await until_has(back, "missed", 90)).content == noise("missed", 20_000)
            check(back)
