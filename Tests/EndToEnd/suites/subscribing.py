"""Phones that subscribe and unsubscribe in quick succession: they get values according to their last write of the CCCD."""
from __future__ import annotations

import asyncio
import random

from bumble.gatt import GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR
from bumble.gatt_client import DescriptorProxy

from harness.runner import Suite
from harness.stage import Stage
from phones.ios import IOSWallet
from phones.phone import Link
from phones.tuvali import DIALECTS
from phones.wallet import Point
from suites.visits import KB, credential, visit

suite = Suite("subscribing")

#: Writes to the CCCDs before the phone identifies itself, for which the kiosk gives it 10 s.
WRITES = 200
NOTHING, NOTIFICATIONS, INDICATIONS = range(3)
WORDS = {NOTHING: "has unsubscribed", NOTIFICATIONS: "wants notifications", INDICATIONS: "wants indications"}


class FickleWallet(IOSWallet):
    """An iOS wallet that writes all three values to its CCCDs in any order before it begins. It receives values only in the form that
    it asked for last; one that has unsubscribed receives notifications, as an Android wallet does."""

    def __init__(self, *arguments, last: int, **more) -> None:
        super().__init__(*arguments, **more)
        self._last = last

    async def prepare(self, link: Link) -> None:
        await link.exchange_mtu(self.mtu)
        await link.discover(self.dialect.service)
        cccds = [await self._cccd(link, uuid) for uuid, _ in self._handlers]
        values = random.Random(self._last)
        for number in range(WRITES):
            value = values.choice(list(WORDS))
            await cccds[number % len(cccds)].write_value(bytes([value, 0]), with_response=False)
            await link.sent(link.ROOM)
        for cccd in cccds:
            await link.until_closed(asyncio.ensure_future(cccd.write_value(bytes([self._last, 0]), with_response=True)))
        subscribers = link.client.indication_subscribers if self._last == INDICATIONS else link.client.notification_subscribers
        for uuid, handler in self._handlers:
            subscribers.setdefault(link._characteristic(uuid).handle, set()).add(handler)

    @property
    def _handlers(self):
        return (
            (self.dialect.report_response, self.on_report), (self.dialect.verification_status, self.on_status),
            (self.dialect.disconnect, self.on_disconnect),
        )

    @staticmethod
    async def _cccd(link: Link, uuid: str) -> DescriptorProxy:
        characteristic = link._characteristic(uuid)
        await characteristic.discover_descriptors()
        cccd = characteristic.get_descriptor(GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR)
        assert cccd is not None, f"{uuid} has no CCCD"
        return cccd

    async def hesitate(self) -> None:
        """Unsubscribes from the verdict and subscribes again, until the verdict is there."""
        assert self.link is not None
        cccd = await self._cccd(self.link, self.dialect.verification_status)
        for number in range(WRITES):
            if self._verdict.done():
                return
            await self.link.until_closed(
                asyncio.ensure_future(cccd.write_value(bytes([number % 2, 0]), with_response=True)))


def _add(last: int) -> None:
    @suite.test(f"After {WRITES} quick writes of its CCCDs a phone that {WORDS[last]} gets report and verdict, once, two times of two",
                limit=60)
    async def test(stage: Stage) -> None:
        await stage.set()
        # bluetoothd's state after the first phone is still there for the second.
        for _ in range(2):
            wallet = FickleWallet(stage.phone, DIALECTS["0.5"], last=last)
            await visit(stage, wallet, credential(KB))
            assert [kind for kind, _ in wallet.heard] == ["report", "status"], wallet.heard


for _last in WORDS:
    _add(_last)


@suite.test("A phone that subscribes and unsubscribes all the time gets the verdict, four times of four", limit=90)
async def hesitating(stage: Stage) -> None:
    await stage.set()
    for _ in range(4):
        wallet = FickleWallet(stage.phone, DIALECTS["0.5"], last=NOTIFICATIONS)
        hesitating: list[asyncio.Task[None]] = []

        async def at(point: Point) -> None:
            if point is Point.DECISION:
                hesitating.append(asyncio.create_task(wallet.hesitate()))

        await visit(stage, wallet, credential(KB), at=at)
        assert [kind for kind, _ in wallet.heard][:2] == ["report", "status"], wallet.heard
        for task in hesitating:
            task.cancel()
