"""The local broadcast channel beside a phone with a PBLEC app: sent and received packets, byte by byte."""
from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bumble.hci import Address
from dbus_fast import Variant

from harness.feed import Feed, with_feed
from harness.limits import limit
from harness.machine import ADAPTER, BLUEZ, KIOSK, THIRD, adapter_path
from harness.management import monitors
from harness.monitor import SetHistory, watching
from harness.radio import address
from harness.runner import Suite
from harness.service import Settings
from harness.stage import SETTINGS, Stage
from phones.feed import APART, BEACON, FLAGS, MOST, ON_AIR, FeedPhone, Packet, beacon, message, read
from phones.ios import IOSWallet
from phones.tuvali import DIALECTS
from suites.degraded import capability
from suites.visits import KB, credential, visit

suite = Suite("broadcast")
VECTORS = Path(__file__).parents[2] / "Protocols/PBLECTests/Vectors/pblec.json"

#: Number of a phone's messages, and of those during which its address changes.
SAID, MOVED = (30, (7, 15, 24)) if os.environ.get("ALL") else (6, (2,))
#: Minimum number of packets received of a message that is broadcast for 4 s. A quiet guest receives 40; the interval is
#: checked in the kernel's commands, because a busy machine slows the virtual controller.
LOOKS = 3
#: Event types of legacy packets that are neither connectable nor scannable, and of those that are both.
NOT_CONNECTABLE, CONNECTABLE = 0x0010, 0x0013
#: The flags that Linux sends, without BR/EDR.
LINUX = 0x06
#: Number of advertising sets of a virtual controller.
SLOTS = 3
#: Milliseconds from one packet of a message to the next.
INTERVAL = 100.0
WITHOUT_KIOSK: Settings = {**SETTINGS, "Verifier": {"Enabled": "no"}}


@suite.test("The phone with the public feed speaks the protocol of the vectors")
async def phone_speaks(stage: Stage) -> None:
    vectors = json.loads(VECTORS.read_text())
    for case in vectors["packets"]:
        data = bytes.fromhex(case["adv"])
        assert message(case["digit"], case["text"], LINUX) == data, case
        assert read(data) == (case["digit"], case["text"]), case
    for name, case in vectors["ibeacon"].items():
        assert beacon(case["major"], case["minor"], flags=LINUX) == bytes.fromhex(case["adv"]), name
    stage.measure(f"{len(vectors['packets'])} messages")


@asynccontextmanager
async def feed_of(stage: Stage, settings: Settings, **feed: str) -> AsyncIterator[Feed]:
    """The broadcast service of the kiosk's machine, which listens."""
    await stage.set_radio()
    await stage.kiosk.start(with_feed(settings, **feed))
    feed_ = Feed(stage.kiosk)
    try:
        await feed_.until("listening")
        yield feed_
    finally:
        feed_.close()


@asynccontextmanager
async def phone_on(stage: Stage) -> AsyncIterator[FeedPhone]:
    """A phone in range of the kiosk."""
    await stage.machine.free_adapter(THIRD)
    phone = FeedPhone(THIRD, "45:0B:1E:C0:00:00")
    await phone.switch_on()
    try:
        yield phone
    finally:
        await phone.switch_off()


# Sending.


@dataclass
class Said:
    """The packets of one message, in order."""

    digit: int
    text: str
    packets: list[Packet]


def messages_in(packets: list[Packet]) -> list[Said]:
    """The messages in packets of one machine, in order."""
    found: list[Said] = []
    for packet in packets:
        said = read(packet.data)
        if said is None:
            continue
        if not found or (found[-1].digit, found[-1].text) != said:
            found.append(Said(*said, []))
        found[-1].packets.append(packet)
    return found


def check_said(said: Said) -> None:
    """Checks that each packet has the expected bytes, and that there are at least LOOKS."""
    wanted = message(said.digit, said.text, LINUX)
    for packet in said.packets:
        assert packet.data == wanted, f"{packet.data.hex()}, not {wanted.hex()}"
        assert packet.properties == NOT_CONNECTABLE, f"0x{packet.properties:04x}"
    assert len(said.packets) >= LOOKS, f"{said.text!r}: {len(said.packets)} packets"


def check_address(sender: Address) -> None:
    """Checks that the address is random, not resolvable, and not the adapter's."""
    assert sender.address_type == Address.RANDOM_DEVICE_ADDRESS, sender
    assert bytes(sender)[5] >> 6 == 0, f"{sender} is none that nobody can resolve"
    assert sender.to_string(False) != address(KIOSK), sender


@suite.test("What a program says is on the air as the vectors have it, not connectable, from one address of its own, for 4 s, and "
            "then nothing for 2 s")
async def said(stage: Stage) -> None:
    async with AsyncExitStack() as stack:
        feed = await stack.enter_async_context(feed_of(stage, SETTINGS))
        phone = await stack.enter_async_context(phone_on(stage))
        sets = await stack.enter_async_context(watching(KIOSK))
        await phone.listen()
        texts = ["somebody has lost a dog", "🦊 and a fox, 24 bytes", "gone"]
        assert len(texts[1].encode()) == MOST
        for number in [await feed.send(text) for text in texts]:
            await feed.until_sent(number)
        await phone.stop_listening()
        found = messages_in(phone.heard)
        assert [one.text for one in found] == texts, found
        for one in found:
            check_said(one)
        senders = {packet.address for one in found for packet in one.packets}
        assert len(senders) == 1, senders
        check_address(senders.pop())
        for former, next_ in zip(found, found[1:]):
            assert next_.digit == (former.digit + 1) % 10, (former.digit, next_.digit)
            check_silence(phone, former, next_)
        await check_sets(sets, found)
        stage.measure(", ".join(f"{len(one.packets)} looks" for one in found))


def check_silence(phone: FeedPhone, former: Said, next_: Said) -> None:
    """Checks that between two messages this address advertises flags alone."""
    begin, end = former.packets[-1].time, next_.packets[0].time
    between = [packet for packet in phone.heard if begin < packet.time < end and packet.address == former.packets[0].address]
    assert between, "nothing is there between two messages"
    for packet in between:
        assert packet.data == bytes([2, FLAGS, LINUX]), packet.data.hex()


async def check_sets(sets: SetHistory, found: list[Said]) -> None:
    """Checks the kernel's commands to the controller: each message is advertised once, at its interval, for its time, and after the
    time of the one before it and the gap. No set beyond the controller's is used."""
    shown = []
    for one in found:
        spans = await sets.spans(message(one.digit, one.text, LINUX).__eq__)
        assert len(spans) == 1, f"{one.text!r} was on the air {len(spans)} times, of {sets.shown}"
        shown += spans
        assert spans[0].properties == NOT_CONNECTABLE and spans[0].is_random, spans
        assert spans[0].interval == INTERVAL, spans
        # Never too short; too long by the time that a slow guest needs to end it.
        assert ON_AIR - 0.05 <= spans[0].end - spans[0].begin <= ON_AIR + limit(0.5), spans
    for former, next_ in zip(shown, shown[1:]):
        assert next_.begin - former.begin >= APART - 0.05, (former, next_)
    assert sets.most <= SLOTS, sets.most


@suite.test("A minute after a conversation the feed is off the air, and the next message comes from another address", limit=120)
async def another_address(stage: Stage) -> None:
    async with AsyncExitStack() as stack:
        feed = await stack.enter_async_context(feed_of(stage, WITHOUT_KIOSK))
        phone = await stack.enter_async_context(phone_on(stage))
        sets = await stack.enter_async_context(watching(KIOSK))
        await feed.until_sent(await feed.send("before"))
        async with asyncio.timeout(limit(80)):
            while (await stage.kiosk.manager())["AdvertisingServices"]:
                await asyncio.sleep(1)  # no signal reports it
        await phone.listen()
        await feed.until_sent(await feed.send("after"))
        await phone.stop_listening()
        after = messages_in(phone.heard)
        assert [one.text for one in after] == ["after"], after
        before = [shown.address for shown in sets.shown if (read(shown.data) or (0, ""))[1] == "before"]
        assert before and bytes(after[0].packets[0].address)[::-1] not in before, before


# Receiving.


async def say(phone: FeedPhone, digit: int, text: str, moved: Address | None = None) -> None:
    """Broadcasts one message for its time, and the gap; from its middle on from another address."""
    await phone.prepare(message(digit, text))
    await phone.air(ON_AIR / 2)
    if moved is not None:
        await phone.take(moved)
    await phone.air(ON_AIR / 2)
    await asyncio.sleep(APART - ON_AIR)  # the gap that the protocol requires


def own_address(number: int) -> Address:
    return Address(f"45:0B:1E:C0:01:{number:02X}")


async def hears_all(stage: Stage, feed: Feed, count: int = SAID, moved: tuple[int, ...] = MOVED) -> None:
    """A phone sends this number of messages; each is received exactly once."""
    async with phone_on(stage) as phone:
        before = max((line.number for line in await feed.lines()), default=0)
        texts = [f"message {number} of {count}" for number in range(count)]
        for number, text in enumerate(texts):
            await say(phone, number % 10, text, own_address(number) if number in moved else None)
        await feed.until_heard(texts[-1])
        lines = await feed.lines(before)
        assert [line.text for line in lines] == texts, [line.text for line in lines]
        told = [body[0] for name, body in feed.signals if name == "MessageReceived" and body[0] > before]
        assert told == [line.number for line in lines], told
        stage.measure(f"{count} messages")


@asynccontextmanager
async def discovery(stage: Stage) -> AsyncIterator[None]:
    """Another program discovers, without a filter."""
    path = adapter_path(KIOSK)
    await stage.bus.call(BLUEZ, path, ADAPTER, "SetDiscoveryFilter", "a{sv}", {"Transport": Variant("s", "le")})
    await stage.bus.call(BLUEZ, path, ADAPTER, "StartDiscovery")
    try:
        yield
    finally:
        await stage.bus.call(BLUEZ, path, ADAPTER, "StopDiscovery")


def _add(what: str, settings: Settings, discovers: bool) -> None:
    @suite.test(f"What a phone says is there, once each and none missing, {what}", limit=60 + SAID * 8)
    async def test(stage: Stage) -> None:
        async with AsyncExitStack() as stack:
            feed = await stack.enter_async_context(feed_of(stage, settings, FollowAddresses="yes"))
            if discovers:
                await stack.enter_async_context(discovery(stage))
            await hears_all(stage, feed)


_add("while a kiosk waits", SETTINGS, False)
_add("while another program discovers", WITHOUT_KIOSK, True)
_add("while a kiosk waits and another program discovers", SETTINGS, True)


@suite.test("Of a phone whose address changes amid a message it is there twice, unless addresses are followed", limit=90)
async def moved_within(stage: Stage) -> None:
    async with feed_of(stage, WITHOUT_KIOSK, FollowAddresses="no") as feed, phone_on(stage) as phone:
        await say(phone, 3, "who is that", own_address(1))
        await say(phone, 4, "the end")
        await feed.until_heard("the end")
        assert [line.text for line in await feed.lines()] == ["who is that", "who is that", "the end"]
        peers = [line.peer for line in await feed.lines()]
        assert peers[0] != peers[1] == peers[2], peers


# Beacons.


@suite.test("A call to all is heard once, and one of a program is on the air for a minute as the vectors have it", limit=150)
async def beacons(stage: Stage) -> None:
    async with AsyncExitStack() as stack:
        await stage.kiosk.stop()
        shutil.rmtree("/var/lib/earshot/broadcast", ignore_errors=True)
        feed = await stack.enter_async_context(feed_of(stage, WITHOUT_KIOSK))
        phone = await stack.enter_async_context(phone_on(stage))
        sets = await stack.enter_async_context(watching(KIOSK))
        for minor in (7, 7, 8, 9):
            await phone.prepare(beacon(1, minor))
            await phone.air(1)
        await say(phone, 0, "that is all")
        await feed.until_heard("that is all")
        # Two a day are reported, and a repetition does not count.
        assert [name for name, _ in feed.signals if name == "NotifyReceived"] == ["NotifyReceived"] * 2, feed.signals
        assert (await feed.properties())["NotifiesLeft"] == 0
        await phone.listen()
        await feed.call("Notify")
        await feed.until_signal("NotifySent", timeout=90)
        await phone.stop_listening()
        heard = [packet for packet in phone.heard if BEACON in packet.data]
        own = heard[0].data
        assert beacon(*(int.from_bytes(own[at : at + 2], "big") for at in (25, 27)), flags=LINUX) == own, own.hex()
        assert {(packet.data, packet.properties) for packet in heard} == {(own, NOT_CONNECTABLE)}, heard
        check_address(heard[0].address)
        spans = await sets.spans(own.__eq__)
        assert sum(span.end - span.begin for span in spans) >= 59.9, spans
        stage.measure(f"{len(heard)} looks")


# Faults.


async def both_ways(stage: Stage, feed: Feed, what: str) -> None:
    """One message in each direction."""
    async with phone_on(stage) as phone:
        await say(phone, 1, f"{what}, the phone")
        await feed.until_heard(f"{what}, the phone")
        await phone.listen()
        await feed.until_sent(await feed.send(what))
        assert [one.text for one in messages_in(phone.heard)] == [what], messages_in(phone.heard)
        check_said(messages_in(phone.heard)[0])


@suite.test("After bluetoothd was killed, and after the adapter was switched off and on, messages go both ways as before", limit=180)
async def returns(stage: Stage) -> None:
    async with feed_of(stage, SETTINGS) as feed:
        await both_ways(stage, feed, "before")
        await stage.machine.kill_bluetoothd()
        await stage.machine.start_bluetoothd()
        await stage.machine.until_powered(KIOSK)
        await feed.until("listening")
        await both_ways(stage, feed, "bluetoothd")
        await stage.machine.power(KIOSK, False)
        await feed.until("waiting")
        await stage.machine.power(KIOSK, True)
        await feed.until("listening")
        await both_ways(stage, feed, "power")
        assert len(monitors(KIOSK)) == 1, monitors(KIOSK)


@suite.test("Of a message amid which bluetoothd is killed one thing is told, whether it was said or not, and the next one is said",
            limit=120)
async def amid_message(stage: Stage) -> None:
    async with AsyncExitStack() as stack:
        feed = await stack.enter_async_context(feed_of(stage, SETTINGS))
        sets = await stack.enter_async_context(watching(KIOSK))
        number = await feed.send("amid")
        async with asyncio.timeout(limit(10)):
            while "Broadcast" not in (await stage.kiosk.manager())["AdvertisingServices"]:
                await asyncio.sleep(0.1)  # no signal reports it
        await stage.machine.kill_bluetoothd()
        await stage.machine.start_bluetoothd()
        await stage.machine.until_powered(KIOSK)
        await feed.until("listening")
        await feed.until_sent(await feed.send("next"), timeout=60)
        told = [name for name, body in feed.signals if name in ("MessageSent", "MessageFailed") and body[0] == number]
        assert len(told) == 1, feed.signals
        shown = [read(one.data) for one in await sets.spans(lambda data: read(data) is not None)]
        # bluetoothd may stop before the controller has the first packet; then the message was not sent.
        texts = [text for _, text in shown]
        assert texts == ["amid", "next"] or (texts, told) == (["next"], ["MessageFailed"]), (shown, told)
        if texts == ["amid", "next"]:
            assert shown[1][0] == (shown[0][0] + 1) % 10, shown
        stage.measure(told[0])


async def set_discoverable(stage: Stage, wanted: bool) -> None:
    await stage.bus.set(BLUEZ, adapter_path(KIOSK), ADAPTER, "Discoverable", Variant("b", wanted))


@suite.test("While the adapter is discoverable the radio is degraded and says how to undo it, and is whole when it is undone", limit=90)
async def discoverable(stage: Stage) -> None:
    async with feed_of(stage, WITHOUT_KIOSK) as feed:
        await set_discoverable(stage, True)
        try:
            async with phone_on(stage) as phone:
                await phone.listen()
                number = await feed.send("seen by all")
                found = await stage.kiosk.until_radio("degraded")
                command = f"in bluetoothctl, select {address(KIOSK)}, then discoverable off, while earshotd is stopped"
                assert command in found["RadioReason"], found
                await feed.until_sent(number)
                await phone.stop_listening()
            packets = [packet for packet in phone.heard if read(packet.data)]
            assert {packet.properties for packet in packets} == {CONNECTABLE}, packets[:3]
        finally:
            await stage.kiosk.stop()
            await set_discoverable(stage, False)
        # Its numbers restart.
        feed.signals.clear()
        await stage.kiosk.start(with_feed(WITHOUT_KIOSK))
        await feed.until("listening")
        await stage.kiosk.until_radio("ready")
        await both_ways(stage, feed, "hidden again")


@suite.test("Without CAP_NET_ADMIN the feed is off; with Degraded=yes it goes by bluetoothd, and says that it is degraded", limit=150)
async def without_management(stage: Stage) -> None:
    await stage.set_radio()
    await stage.kiosk.override(capability("CAP_NET_RAW"))
    feed = Feed(stage.kiosk)
    try:
        await stage.kiosk.start(with_feed(WITHOUT_KIOSK))
        found = await feed.until("degraded")
        assert not found["Listening"] and "CAP_NET_ADMIN" in found["Reason"], found
        feed.signals.clear()
        await stage.kiosk.start(with_feed(WITHOUT_KIOSK, Degraded="yes"))
        found = await feed.until("degraded")
        assert found["Listening"], found
        async with phone_on(stage) as phone:
            await say(phone, 5, "by bluetoothd")
            await feed.until_heard("by bluetoothd")
            radio = await stage.kiosk.until_radio("degraded")
            assert found["Reason"] in radio["RadioReason"], radio
            number = await feed.send("so as it can")
            name = await phone.look(lambda seen: read(seen.scan_response))
            assert name[1] == "so as it can", name
            await feed.until_sent(number)
    finally:
        feed.close()
        await stage.kiosk.restore()
        await stage.kiosk.stop()


@suite.test("A credential arrives at a kiosk that is a node of the mesh, while it says what programs ask for, in the slots there are",
            limit=150)
async def all_at_once(stage: Stage) -> None:
    settings: Settings = {**SETTINGS, "Mesh": {"Enabled": "yes", "Nickname": "kiosk", "TrustClock": "yes"}}
    async with AsyncExitStack() as stack:
        feed = await stack.enter_async_context(feed_of(stage, settings))
        sets = await stack.enter_async_context(watching(KIOSK))
        await stage.kiosk.invitation()
        stage.kiosk.drop_received()
        texts = [f"message {number}" for number in range(3)]
        numbers = [await feed.send(text) for text in texts]
        for size in (KB, 100 * KB):
            await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"]), credential(size))
        for number in numbers:
            await feed.until_sent(number, timeout=60)
        shown = await sets.spans(lambda data: read(data) is not None)
        assert [read(one.data)[1] for one in shown] == texts, shown
        assert all(one.end - one.begin >= ON_AIR - 0.05 for one in shown), shown
        assert sets.most == SLOTS, f"{sets.most} sets were on at one time"
        state = await stage.kiosk.manager()
        assert state["AdvertisingSlots"][1] == SLOTS, state
