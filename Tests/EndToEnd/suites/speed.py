"""The connection parameters of links: requests to a phone, and the parameters of the adapter before, during and after a transfer.

The kernel requests another connection interval by an L2CAP Connection Parameter Update Request, once, after the link has opened,
where the phone's own is outside the preferred range. Virtual controllers accept every interval and send as fast as they can."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from harness.limits import limit
from harness.machine import KIOSK
from harness.management import LE_2M, link_defaults, select_phys, selected_phys, set_link_defaults
from harness.runner import Suite
from harness.service import VERIFIER, VERIFIER_PATH, Settings
from harness.stage import SETTINGS, Stage
from phones.android import AndroidWallet
from phones.ios import IOSWallet
from phones.phone import ParameterRequest
from phones.tuvali import DIALECTS
from phones.wallet import Point, Wallet
from suites.visits import KB, credential, visit

suite = Suite("speed", measures=True)
#: The defaults of kernels 6.1 and 6.12: 30 to 50 ms, no latency, 420 ms.
KERNEL = (24, 40, 0, 42)
#: The intervals that the service sets instead, and those of 15 ms.
FAST, EVEN = (9, 12), (12, 12)
#: The supervision timeout of the phone's links, in 10 ms.
PHONES_TIMEOUT = 72
#: The default of kernel 6.1: all of BR/EDR, and LE 1M.
WITHOUT_2M = 0x7FF
#: Polling interval of the kernel's parameters in seconds: there is no event to wait for.
LOOK = 0.1


def radio(**settings: str) -> Settings:
    """The usual settings, except these of the radio."""
    return {**SETTINGS, "Radio": {**SETTINGS["Radio"], **settings}}


async def until(look: Callable[[], object], wanted: object, what: str) -> None:
    try:
        async with asyncio.timeout(limit(10)):
            while look() != wanted:
                await asyncio.sleep(LOOK)
    except TimeoutError:
        raise TimeoutError(f"{what}: {look()}, and not {wanted}") from None


async def until_links(wanted: tuple[int, ...]) -> None:
    """Waits until new links of the kiosk's adapter get these parameters: minimum and maximum interval, and optionally latency and
    timeout."""
    await until(lambda: link_defaults(KIOSK)[: len(wanted)], wanted, "new links get")


async def until_phys(wanted: int) -> None:
    """Waits until new links of the kiosk's adapter may use these PHYs."""
    await until(lambda: selected_phys(KIOSK), wanted, "selected physical layers")


@asynccontextmanager
async def at_interval(stage: Stage, interval: float) -> AsyncIterator[None]:
    """The phone's links begin with this interval, in milliseconds."""
    stage.phone.interval = interval
    try:
        yield
    finally:
        stage.phone.interval = None


async def asleep(stage: Stage) -> None:
    """The kiosk's service is stopped, and the adapter has the kernel's defaults."""
    await stage.set_radio()
    await stage.kiosk.stop()
    set_link_defaults(KIOSK, *KERNEL)


async def visits_at(
    stage: Stage, wallet: Wallet, interval: float, asked: tuple[int, ...] | None, then: float
) -> None:
    """A transfer of a phone that connects with an interval: the requested intervals, and the final one.

    Latency and timeout stay: the kernel requests those that the phone chose itself."""

    async def at(here: Point) -> None:
        if here is Point.CONNECTED:
            assert wallet.link is not None
            await wallet.link.until_interval(then)

    async with at_interval(stage, interval):
        result, _ = await visit(stage, wallet, credential(100 * KB), at=at)
    assert wallet.link is not None and wallet.link.interval == then, f"{wallet.link.interval} ms in the end"
    wanted = [] if asked is None else [ParameterRequest(*asked[:2], 0, PHONES_TIMEOUT)]
    assert stage.phone.requests == wanted, f"the phone was asked for {stage.phone.requests}, not {wanted}"
    stage.measure(f"{interval:g} ms to {then:g} ms, {result.chunks} chunks in {result.written:.1f} s")


class PacedAndroidWallet(AndroidWallet):
    """Sends a chunk per connection event, as on a real link: the virtual controllers have no connection events."""

    async def write_chunk(self, chunk: bytes, *, first: bool) -> None:
        await super().write_chunk(chunk, first=first)
        assert self.link is not None
        await asyncio.sleep(self.link.interval / 1000)


class PacedIOSWallet(IOSWallet):
    """An iOS wallet that sends a chunk per connection event."""

    @property
    def PACE(self) -> float:
        assert self.link is not None
        return self.link.interval / 1000


def android(stage: Stage) -> Wallet:
    return PacedAndroidWallet(stage.phone, DIALECTS["0.5"])


def ios(stage: Stage) -> Wallet:
    return PacedIOSWallet(stage.phone, DIALECTS["0.4"])


@suite.test("An Android phone that connects at 45 ms is asked for 11.25 to 15 ms, goes there, and is accepted")
async def android_is_asked(stage: Stage) -> None:
    await stage.set()
    await visits_at(stage, android(stage), 45, FAST, 11.25)


@suite.test("An iOS phone that connects at 30 ms is asked for 11.25 to 15 ms, goes there, and is accepted")
async def ios_is_asked(stage: Stage) -> None:
    await stage.set()
    await visits_at(stage, ios(stage), 30, FAST, 11.25)


@suite.test("A phone that connects at 15 ms is left alone")
async def is_fast_already(stage: Stage) -> None:
    await stage.set()
    await visits_at(stage, android(stage), 15, None, 15)


@suite.test("Left to the kernel, a phone at 15 ms is asked to slow down, and one at 45 ms stays there")
async def left_to_the_kernel(stage: Stage) -> None:
    await asleep(stage)
    await stage.set(radio(LinkInterval="kernel"))
    await visits_at(stage, android(stage), 15, KERNEL, 30)
    await visits_at(stage, android(stage), 45, None, 45)


@suite.test("The adapter has what it had when the verifier is stopped, and when the service ends")
async def given_back(stage: Stage) -> None:
    await asleep(stage)
    own, phys = (40, 56, 0, 300), WITHOUT_2M
    set_link_defaults(KIOSK, *own)
    before = selected_phys(KIOSK)
    select_phys(KIOSK, phys)
    await stage.set()
    for stop, start in (
        (lambda: stage.kiosk.call(VERIFIER_PATH, VERIFIER, "Stop"), lambda: stage.kiosk.call(VERIFIER_PATH, VERIFIER, "Start")),
        (stage.kiosk.stop, stage.set),
    ):
        await until_links(FAST)
        await until_phys(phys | LE_2M)
        await stop()
        await until_links(own)
        await until_phys(phys)
        await start()
    await stage.kiosk.stop()
    select_phys(KIOSK, before)
    set_link_defaults(KIOSK, *KERNEL)


@suite.test("When bluetoothd was killed and comes back with values of its own, phones are asked for the service's again")
async def bluetoothd_killed(stage: Stage) -> None:
    await asleep(stage)
    await stage.set()
    await until_links(FAST)
    await stage.machine.stop_bluetoothd_now()
    theirs = (32, 64, 0, 42)
    set_link_defaults(KIOSK, *theirs)
    await stage.machine.start_bluetoothd()
    await stage.machine.until_powered(KIOSK)
    await until_links(FAST)
    await visits_at(stage, android(stage), 45, FAST, 11.25)
    await stage.kiosk.stop()
    await until_links(theirs)
    set_link_defaults(KIOSK, *KERNEL)


@suite.test("A controller that is taken out and put back, and one that is switched off and on, is set again")
async def comes_back(stage: Stage) -> None:
    await asleep(stage)
    await stage.set()
    await until_links(FAST)
    await stage.machine.remove_controllers()
    await stage.phone.switch_off()
    await stage.set()
    await until_links(FAST)
    await stage.machine.power(KIOSK, False)
    select = selected_phys(KIOSK)
    await stage.machine.power(KIOSK, True)
    await until_phys(select | LE_2M)
    await visits_at(stage, ios(stage), 45, FAST, 11.25)
    await stage.kiosk.stop()
    await until_links(KERNEL)


@suite.test("LE 2M is selected and taken out by reloads amid the chunks, and the transfer goes on")
async def reloaded(stage: Stage) -> None:
    await asleep(stage)
    before = selected_phys(KIOSK)
    select_phys(KIOSK, WITHOUT_2M)
    await stage.set()
    await until_phys(WITHOUT_2M | LE_2M)
    wallet = android(stage)

    async def at(here: Point) -> None:
        if here is Point.MID_CHUNKS:
            await stage.kiosk.reload(radio(Link2M="no", LinkInterval="15ms"))
            await until_phys(WITHOUT_2M)
            await until_links(EVEN)
            await stage.kiosk.reload(SETTINGS)
            await until_phys(WITHOUT_2M | LE_2M)
            await until_links(FAST)

    await visit(stage, wallet, credential(100 * KB), at=at)
    assert wallet.visit.rounds == 0, f"{wallet.visit.resent} chunks were lost on the way"
    await stage.kiosk.stop()
    await until_phys(WITHOUT_2M)
    select_phys(KIOSK, before)
