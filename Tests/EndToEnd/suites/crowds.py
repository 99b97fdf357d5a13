"""Several simultaneous phones at the kiosk: wallets that are served together, and others that hold links."""
from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable, Sequence

from harness.runner import Suite
from harness.stage import Stage, settings
from phones.android import AndroidWallet
from phones.ios import IOSWallet
from phones.phone import Link, LinkLost, Phone
from phones.tuvali import DIALECTS
from phones.wallet import Point, Visit, Wallet
from suites.visits import KB, credential, speed

suite = Suite("crowds")

#: Number of honest transfers beside each kind of others; more with ALL=1 in the environment.
TIMES = 20 if os.environ.get("ALL") else 2


def four_wallets(phones: list[Phone]) -> list[Wallet]:
    """One wallet of each kind, in both dialects: two that subscribe and two that never do."""
    first, second, third, fourth = phones
    return [
        IOSWallet(first, DIALECTS["0.5"]),
        AndroidWallet(second, DIALECTS["0.4"], newer=False),
        IOSWallet(third, DIALECTS["0.4"], mtu=185),
        AndroidWallet(fourth, DIALECTS["0.5"]),
    ]


class Clerk:
    """The local program: fetches each credential that arrives, and accepts the expected ones."""

    def __init__(self, stage: Stage, texts: list[bytes]) -> None:
        self._stage = stage
        self._texts = texts
        #: By the credential's index in `texts`.
        self.transfers: dict[int, str] = {}

    async def serve(self) -> None:
        kiosk = self._stage.kiosk
        for _ in self._texts:
            path = await kiosk.received.get()
            found = await kiosk.credential(path)
            assert found in self._texts, f"{len(found)} bytes were received, and not what was sent"
            self.transfers[self._texts.index(found)] = path
            await kiosk.judge(path, True)
            await kiosk.transfer_end(path, "accepted")


def texts(count: int, size: int) -> list[bytes]:
    """Different credentials of one size."""
    return [random.Random(number).randbytes(size // 2).hex().encode() for number in range(count)]


async def next_invitation(stage: Stage, uri: str) -> str:
    """The QR code after this one, which is shown while others are served."""

    async def test() -> str | None:
        found = (await stage.kiosk.properties())["ConnectionUri"]
        return found if found and found != uri else None

    return await stage.bus.until("the kiosk shows the next QR code", test)


async def come_together(
    stage: Stage, wallets: list[Wallet], credentials: list[bytes], amid: dict[int, Callable[[Wallet], Awaitable[None]]]
) -> list[asyncio.Task[Visit]]:
    """The wallets identify themselves one after the other, and then continue together; returns the results.

    amid: actions of wallets between their chunks, by their number."""
    identified = [asyncio.Event() for _ in wallets]
    everybody = asyncio.Event()

    def hook(number: int) -> Callable[[Point], Awaitable[None]]:
        async def at(point: Point) -> None:
            if point is Point.IDENTIFIED:
                identified[number].set()
                await everybody.wait()
            if point is Point.MID_CHUNKS and number in amid:
                await amid[number](wallets[number])

        return at

    uri = await stage.kiosk.invitation()
    visits = []
    for number, (wallet, text) in enumerate(zip(wallets, credentials, strict=True)):
        visits.append(asyncio.ensure_future(wallet.present(uri, text, hook(number))))
        arrived = asyncio.ensure_future(identified[number].wait())
        await asyncio.wait({visits[-1], arrived}, return_when=asyncio.FIRST_COMPLETED)
        if not arrived.done():
            arrived.cancel()
            visits[-1].result()
        # With the last session slot used there is still one more invitation: a wallet may find a slot then.
        uri = await next_invitation(stage, uri)
    everybody.set()
    await asyncio.wait(visits)
    return visits


def check_honest(wallet: Wallet, visit: Visit) -> None:
    """Checks that the wallet was accepted, and received its own reports and verdict and nothing else."""
    assert visit.accepted and visit.left, f"the wallet heard {visit.status}"
    kinds = [kind for kind, _ in wallet.heard if kind != "disconnect"]
    expected = ["report"] * (visit.rounds + 1) + ["status"]
    assert kinds == expected, f"an {wallet.kind} wallet heard {kinds}, not {expected}"


@suite.test("Four wallets of four kinds bring 100 KB each at one time, and each hears its own reports alone", limit=180)
async def four_at_once(stage: Stage) -> None:
    async with stage.crowd(4) as phones:
        await stage.set()
        wallets, credentials = four_wallets(phones), texts(4, 100 * KB)
        clerk = Clerk(stage, credentials)
        judged = asyncio.ensure_future(clerk.serve())
        visits = await come_together(stage, wallets, credentials, {})
        for wallet, visit in zip(wallets, visits, strict=True):
            check_honest(wallet, visit.result())
        await judged
        assert len(clerk.transfers) == 4, clerk.transfers
        for number, wallet in enumerate(wallets):
            transfer = await stage.kiosk.transfer(clerk.transfers[number])
            assert transfer["Dialect"] == wallet.dialect.name, transfer
        stage.measure(", ".join(speed(visit.result()) for visit in visits))


async def vanish(wallet: Wallet) -> None:
    """Vanishes without a disconnection."""
    assert wallet.link is not None
    await wallet.link.disconnect()


async def flood(wallet: Wallet) -> None:
    """Sends one chunk without end, as fast as possible."""
    assert wallet.link is not None
    while True:
        await wallet.link.command(wallet.dialect.submit_response, bytes(wallet.link.mtu - 3))


@suite.test("Of four wallets at one time one vanishes amid the chunks and one floods, and the others are accepted", limit=180)
async def two_of_four(stage: Stage) -> None:
    async with stage.crowd(4) as phones:
        await stage.set()
        wallets, credentials = four_wallets(phones), texts(4, 100 * KB)
        clerk = Clerk(stage, credentials[:2])
        judged = asyncio.ensure_future(clerk.serve())
        honest = asyncio.ensure_future(
            come_together(stage, wallets, credentials, {2: vanish, 3: flood})
        )
        await judged
        await asyncio.wait({asyncio.ensure_future(stop_flood(wallets[:2], wallets[3])), honest})
        visits = honest.result()
        for wallet, visit in zip(wallets[:2], visits[:2], strict=True):
            check_honest(wallet, visit.result())
        for visit in visits[2:]:
            assert visit.exception() is not None, "the phone that did not finish its visit was served"
        await stage.kiosk.invitation(60)


async def stop_flood(honest: list[Wallet], flooding: Wallet) -> None:
    """Ends the flood when the honest wallets have left, unless the kiosk has ended it before."""
    for wallet in honest:
        assert wallet.link is not None
        await wallet.link.closed
    if flooding.link is not None:
        await flooding.link.disconnect()


@suite.test("Three phones that never say who they are do not delay a wallet", limit=120)
async def three_silent(stage: Stage) -> None:
    async with stage.crowd(4) as phones:
        # They hold their links for the duration of the test.
        await stage.kiosk.start(settings(IdentifyTimeout="90s"))
        uri = await stage.kiosk.invitation()
        silent = [await join(phone, uri) for phone in phones[:3]]
        await served(stage, IOSWallet(phones[3], DIALECTS["0.5"]), credential(10 * KB))
        gone = [number for number, link in enumerate(silent) if link.closed.done()]
        assert not gone, f"phones {gone} did not have their links to the end"


# Other phones beside an honest transfer.


async def join(phone: Phone, uri: str) -> Link:
    """Connects to the kiosk and sends nothing."""
    address, _ = await IOSWallet(phone, DIALECTS["0.5"]).find(uri)
    return await phone.connect(address)


async def subscribe(phone: Phone, uri: str) -> Link:
    """Connects, subscribes, and sends nothing."""
    link = await join(phone, uri)
    await listen(phone, link)
    return link


async def listen(phone: Phone, link: Link) -> None:
    """Subscribes to everything, as an iOS wallet does."""
    wallet = IOSWallet(phone, DIALECTS["0.5"])
    wallet.link = link
    await wallet.prepare(link)


async def served(stage: Stage, wallet: Wallet, text: bytes, at: Callable[[Point], Awaitable[None]] | None = None) -> Visit:
    """An honest transfer while others hold links, without queries of the kiosk's state."""
    uri = (await stage.kiosk.properties())["ConnectionUri"]
    clerk = Clerk(stage, [text])
    async with asyncio.TaskGroup() as group:
        group.create_task(clerk.serve())
        brought = group.create_task(wallet.present(uri, text, *([at] if at else [])))
    check_honest(wallet, brought.result())
    await next_invitation(stage, uri)
    return brought.result()


WALLETS: dict[str, Callable[[Phone], Wallet]] = {
    "An iOS wallet": lambda phone: IOSWallet(phone, DIALECTS["0.5"]),
    "An Android 14 wallet": lambda phone: AndroidWallet(phone, DIALECTS["0.5"]),
    "An older Android wallet": lambda phone: AndroidWallet(phone, DIALECTS["0.4"], newer=False),
}


async def beside(stage: Stage, make: Callable[[Phone], Wallet], others: int, kind: str) -> None:
    """Honest transfers, one after the other, while others hold links; phones that knock reconnect during each transfer."""
    async with stage.crowd(others + 1) as phones:
        await stage.kiosk.start(settings(IdentifyTimeout="5min"))
        uri = await stage.kiosk.invitation()
        come = subscribe if kind == "subscribed" else join
        links = [await come(phone, uri) for phone in phones[:others]]
        company = Company(phones, links, kind)
        times = visits_beside(stage, others)
        begin = time.monotonic()
        for number in range(times):
            await company.come_again()

            async def knock(point: Point) -> None:
                if kind == "knocking" and point in (Point.CONNECTED, Point.MID_CHUNKS):
                    await company.knock((number + (point is Point.MID_CHUNKS)) % others)

            try:
                await served(stage, make(phones[others]), texts(number + 1, 2 * KB)[number], knock)
            except* (AssertionError, LinkLost, TimeoutError) as group:
                raise AssertionError(f"visit {number + 1} of {times}: {group.exceptions[0]!r}") from group
        stage.measure(f"{times} visits, {(time.monotonic() - begin) / times:.1f} s each")


def visits_beside(stage: Stage, others: int) -> int:
    """Number of transfers: two where three phones would have to reconnect on kernel 6.1, which sometimes crashes bluetoothd then
    (docs/facts/bluez.md section 13)."""
    return 2 if others == 3 and stage.machine.kernel.startswith("6.1.") else TIMES


class Company:
    """Phones that hold links beside the wallet's. The kiosk closes an unused link after 10 s (docs/sharing.md), so before each transfer
    the phones whose links are some seconds old reconnect by themselves: all hold links while the wallet connects."""

    RENEWED_AFTER = 4.0

    def __init__(self, phones: Sequence[Phone], links: list[Link], kind: str) -> None:
        self._phones, self._links, self._kind = phones, links, kind
        self._since = [time.monotonic()] * len(links)

    async def come_again(self) -> None:
        """Renews the links that are no longer new."""
        now = time.monotonic()
        for link, since in zip(self._links, self._since, strict=True):
            if now - since >= self.RENEWED_AFTER and not link.closed.done():
                await link.disconnect()
        await self._connect_all()

    async def knock(self, number: int) -> None:
        """One of the phones disconnects, and reconnects at once."""
        await self._links[number].disconnect()
        await self._connect_all()

    async def _connect_all(self) -> None:
        # In this order each gets its former number of the link (phones/crowd.py).
        for number, link in enumerate(self._links):
            if not link.closed.done():
                continue
            phone = self._phones[number]
            self._links[number] = await phone.connect(link.connection.peer_address)
            if self._kind == "subscribed":
                await listen(phone, self._links[number])
            self._since[number] = time.monotonic()


def _add(who: str, make: Callable[[Phone], Wallet], others: int, kind: str) -> None:
    company = {0: "alone", 1: f"beside one {kind} phone", 3: f"beside three {kind} phones"}[others]

    @suite.test(f"{who} is served {company}, time after time", limit=60 + 15 * TIMES)
    async def test(stage: Stage) -> None:
        # docs/facts/bluez.md section 13: there a phone that reconnects sometimes crashes bluetoothd.
        if kind == "knocking" and stage.machine.kernel.startswith("6.1."):
            stage.measure("left out: kernel 6.1 corrupts a list of its own")
            return
        await beside(stage, make, others, kind)


for _who, _make in WALLETS.items():
    _add(_who, _make, 0, "")
    for _kind in ("idle", "subscribed", "knocking"):
        _add(_who, _make, 1, _kind)
        _add(_who, _make, 3, _kind)
