"""Faults during chat and a file: the nodes communicate again, no acknowledged message is lost, none is shown twice, and the file
arrives."""
from __future__ import annotations

import asyncio
import ctypes
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from dbus_fast import DBusError

from harness.limits import limit
from harness.machine import BLUEZ, KIOSK
from harness.management import are_central
from harness.node import Node
from harness.pace import measure_again
from harness.runner import Suite
from harness.stage import Stage
from suites.mesh import ADAPTERS, KIOSK_AND_NODE, join, nodes, talking

suite = Suite("meshfaults")
#: A limit from the return of the radio to the next message.
PROMISE = 15
#: Bytes of a file that is under way during a fault.
FILE_SIZE = 200_000


async def bluetoothd_killed(stage: Stage) -> None:
    await stage.machine.kill_bluetoothd()
    await stage.machine.start_bluetoothd()


async def adapter_switched(stage: Stage) -> None:
    await stage.machine.power(ADAPTERS[0], False)
    await stage.machine.power(ADAPTERS[0], True)


async def controllers_replaced(stage: Stage) -> None:
    await stage.machine.remove_controllers()
    await stage.phone.switch_off()
    await stage.machine.start_controllers()


class Standstill:
    """Pings bluetoothd continuously, to notice when it does not answer: 5.66 sometimes blocks for half a minute where both ends
    open several channels (docs/bluez.md, "Values to peers"). The service's guarantees do not hold meanwhile."""

    #: Seconds without an answer after which it counts as blocked; it may stay so for half a minute.
    SHORTEST, LONGEST = 5, 35

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._longest = 0.0
        self._asked = time.monotonic()

    async def __aenter__(self) -> Standstill:
        self._asking = asyncio.ensure_future(self._ask())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._asking.cancel()
        await asyncio.wait([self._asking])

    async def _ask(self) -> None:
        while True:
            self._asked = time.monotonic()
            with suppress(DBusError, TimeoutError):
                await self._stage.bus.call(BLUEZ, "/", "org.freedesktop.DBus.Peer", "Ping")
            self._longest = max(self._longest, time.monotonic() - self._asked)
            await asyncio.sleep(limit(0.5))

    async def allow(self, wait: Callable[..., Awaitable[Any]], *what: Any, timeout: float) -> None:
        """Waits, and once more if bluetoothd 5.66 was blocked meanwhile."""
        try:
            await wait(*what, timeout=timeout)
        except TimeoutError:
            if self._stage.machine.bluez >= (5, 69) or self._seconds < self.SHORTEST:
                raise
            await wait(*what, timeout=timeout + self.LONGEST)

    @property
    def _seconds(self) -> float:
        return max(self._longest, time.monotonic() - self._asked)

    def __str__(self) -> str:
        return f", bluetoothd stood still for {self._seconds:.0f} s" if self._seconds >= self.SHORTEST else ""


FAULTS: list[tuple[str, Callable[[Stage], Awaitable[None]]]] = [
    ("bluetoothd is killed", bluetoothd_killed),
    ("an adapter is switched off and on", adapter_switched),
    ("the controllers are taken out and put back", controllers_replaced),
]


async def talk(one: Node, other: Node, sent: dict[int, str]) -> None:
    """Sends private and public messages without end, and records the private ones."""
    peer = await other.peer_id()
    while True:
        text = f"{one.name} says {len(sent)}"
        sent[await one.tell(peer, text)] = text
        await one.say(to_all(text))
        await asyncio.sleep(limit(0.3))


def to_all(text: str) -> str:
    return f"{text} to all"


async def check(one: Node, other: Node, sent: dict[int, str]) -> None:
    """Checks that every private message has arrived once and is acknowledged; public messages, whose arrival is not acknowledged,
    arrived at most once."""
    for number in sent:
        await one.until_state(number, "delivered", "read", timeout=60)
    texts = [message.text for message in await other.messages()]
    for text in sent.values():
        assert texts.count(text) == 1, f"{other.name} has {text!r} {texts.count(text)} times"
        assert texts.count(to_all(text)) <= 1, f"{other.name} has {to_all(text)!r} {texts.count(to_all(text))} times"
    assert any(to_all(text) in texts for text in sent.values()), f"{other.name} has heard nothing that was said to all"


def _add(what: str, fault: Callable[[Stage], Awaitable[None]]) -> None:
    @suite.test(f"When {what} amid chat and a file, two nodes talk again, nothing is lost, and no message comes twice", limit=300)
    async def test(stage: Stage) -> None:
        async with nodes(stage, 2) as (anna, ben):
            # bluetoothd 5.66 sometimes blocks for half a minute where both ends open channels at once.
            for node in (anna, ben):
                await node.until_neighbours(1, timeout=40 if stage.machine.bluez >= (5, 69) else 90)
            said: list[dict[int, str]] = [{}, {}]
            talks = [
                asyncio.ensure_future(talk(one, other, sent)) for one, other, sent in ((anna, ben, said[0]), (ben, anna, said[1]))
            ]
            try:
                await anna.until_state(await anna.tell(await ben.peer_id(), "before"), "delivered", "read")
                content = random.Random(what).randbytes(FILE_SIZE)
                file = await anna.send_file(content, "amid", peer=await ben.peer_id())
                await anna.until_file_is(file, "sending")
                await fault(stage)
                assert (await anna.files())[file]["State"] != "delivered", "the file was faster than the fault"
                for adapter in ADAPTERS[:2]:
                    await stage.machine.until_powered(adapter)
                back = time.monotonic()
                # The guest may be busier now than at the beginning.
                await measure_again(stage.bus)
                async with Standstill(stage) as standstill:
                    for one, other in ((anna, ben), (ben, anna)):
                        after = await one.tell(await other.peer_id(), "after")
                        left = PROMISE - (time.monotonic() - back) / limit(1)
                        await standstill.allow(one.until_state, after, "delivered", "read", timeout=max(1, left))
                stage.measure(f"{time.monotonic() - back:.1f} s{standstill}")
            finally:
                for talk_ in talks:
                    talk_.cancel()
                await asyncio.wait(talks)
            for talk_ in talks:
                assert talk_.cancelled(), talk_.exception()
            await check(anna, ben, said[0])
            await check(ben, anna, said[1])
            await anna.until_file_is(file, "delivered", timeout=90)
            stage.measure(f"the file {time.monotonic() - back:.1f} s")
            assert (await ben.until_file("amid"))["Content"] == content
            stage.measure(f"{len(said[0]) + len(said[1])} messages")


for _what, _fault in FAULTS:
    _add(_what, _fault)


@suite.test("Nodes that begin at the same moment connect to each other, have one link, and talk over it", limit=180)
async def both_connect(stage: Stage) -> None:
    async with nodes(stage, 2) as (anna, ben):
        for round in range(3):
            await asyncio.gather(anna.stop(), ben.stop())
            await asyncio.gather(anna.start(), ben.start())
            for node in (anna, ben):
                await node.until_neighbours(1)
                assert (await node.properties())["Links"] == 1
            roles = [role for adapter in ADAPTERS[:2] for role in are_central(adapter)]
            assert sorted(roles) == [False, True], roles
            for one, other in ((anna, ben), (ben, anna)):
                sent = await one.tell(await other.peer_id(), f"round {round} from {one.name}")
                await one.until_state(sent, "delivered", "read")


#: A node's journal line for a link that its peer initiated during the node's own attempt, which bluetoothd continued.
CROSSED = "The peer has connected during this machine's attempt to connect"


@suite.test("A kiosk that is started again beside three nodes that chat has them as neighbours again", limit=600)
async def kiosk_again(stage: Stage) -> None:
    since = time.time()
    async with nodes(stage, 3) as found:
        for node in found:
            await node.until_neighbours(2, timeout=60)
        async with talking(stage, found):
            for _ in range(4):
                await stage.kiosk.stop()
                began = time.monotonic()
                await join(stage)
                stage.measure(f"{time.monotonic() - began:.1f} s")
        await stage.kiosk.stop()
        journals = [await service.journal(since) for service in (stage.kiosk, *(node.service for node in found))]
        stage.measure(f"{sum(journal.count(CROSSED) for journal in journals)} times both had begun to connect")


#: With so many starts of a kiosk bluetoothd's handles go beyond the 1,024th, from which on its Database Hash stays as it is.
STARTS = 22


@suite.test("A kiosk that is started more often than bluetoothd's hash of its handles changes is found again each time", limit=900)
async def many_starts(stage: Stage) -> None:
    for _ in range(STARTS):
        await stage.set(KIOSK_AND_NODE)
        await stage.kiosk.stop()
    async with nodes(stage, 1) as (anna,):
        for number in range(3):
            began = time.monotonic()
            # bluetoothd 5.66 sometimes blocks for half a minute where both ends open channels at once.
            await stage.kiosk.start(KIOSK_AND_NODE)
            await stage.kiosk.invitation(timeout=60)
            kiosk = Node(stage.kiosk, stage.machine, "kiosk", KIOSK)
            await kiosk.until_neighbours(1, timeout=80)
            told = await anna.tell(await kiosk.peer_id(), f"start {number}")
            await anna.until_state(told, "delivered", "read")
            stage.measure(f"{time.monotonic() - began:.1f} s")
            await stage.kiosk.stop()


class _Timex(ctypes.Structure):
    """`struct timex`, of which two fields are used."""

    _fields_ = [("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
                ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_char * 256)]


_STATUS, _UNSYNCHRONISED = 0x0010, 0x0040


def set_synchronised(is_kept: bool) -> None:
    """Tells the kernel whether the clock is synchronised, as a time service does."""
    timex = _Timex(modes=_STATUS | 0x0004 | 0x0008, status=0 if is_kept else _UNSYNCHRONISED)
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex")


@suite.test("A node whose clock is two hours off says nothing until a time service has put it right", limit=120)
async def clock(stage: Stage) -> None:
    async with nodes(stage, 2) as (anna, ben):
        await ben.until_neighbours(1)
        await ben.stop()
        ben.forget()
        now = time.time()
        time.clock_settime(time.CLOCK_REALTIME, now + 7200)
        set_synchronised(False)
        try:
            await ben.start(TrustClock="no")
            found = await ben.service.until("the clock is waited for", "org.earshot.Mesh1", "/org/earshot/mesh", State="waitingForClock")
            assert "clock" in found["Reason"], found
            try:
                await ben.say("too early")
                raise AssertionError("it says something")
            except DBusError as error:
                assert error.type.endswith("NotReady"), error
            own = await ben.peer_id()

            async def has_link() -> bool:
                return (await ben.properties())["Links"] == 1

            await ben.until("has a link", has_link, 30)
            await asyncio.sleep(limit(5))
            assert own not in await anna.peers(), "it has said who it is"
            counters = await ben.counters()
            assert counters["SentFrames"] == 0, counters
            time.clock_settime(time.CLOCK_REALTIME, time.time() - 7200)
            set_synchronised(True)
            await anna.until_knows(own)
            await ben.say("now")
            await anna.until_heard("now")
        finally:
            set_synchronised(False)
            if time.time() > now + 3600:
                time.clock_settime(time.CLOCK_REALTIME, time.time() - 7200)
