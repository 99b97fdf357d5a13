"""The Android wallet (tuvali 0.5.2): it never writes a CCCD, writes only commands, and listens late."""
from __future__ import annotations

import asyncio
from collections.abc import Callable

from phones.phone import Link, Phone
from phones.tuvali import Dialect, Report, android_report
from phones.wallet import Wallet, WalletError


class AndroidWallet(Wallet):
    kind = "Android"

    #: The MTUs that are requested in turn, and the seconds for which each answer is awaited, however soon it comes.
    MTUS = (512, 185, 100)
    MTU_SLOT = 0.5
    #: Time from the report request to the moment at which the app receives reports.
    LISTENS_AFTER = 0.02

    def __init__(
        self, phone: Phone, dialect: Dialect, *, mtu: int = 517, newer: bool = True, damages: int = 0
    ) -> None:
        """newer: Android 14 and later requests 517 whatever the app wants, and once per connection."""
        super().__init__(phone, dialect, mtu=mtu, damages=damages)
        self.newer = newer
        #: The moment from which the app receives reports and the verdict; None until the first request for a report is sent.
        self._listens_from: float | None = None
        self._has_asked = False

    async def prepare(self, link: Link) -> None:
        await link.discover(self.dialect.service)
        await self._negotiate(link)
        link.listen(self.dialect.disconnect, self.on_disconnect)

    async def _negotiate(self, link: Link) -> None:
        """Accepts an MTU only if, capped at 512, it equals the requested one."""
        for wanted in self.MTUS:
            slot = asyncio.ensure_future(asyncio.sleep(self.MTU_SLOT))
            if not self.newer:
                result = await link.exchange_mtu(min(wanted, self.mtu))
            elif wanted == self.MTUS[0]:
                result = await link.exchange_mtu(min(517, self.mtu))
            else:
                result = link.mtu
            await link.until_closed(slot)
            if min(result, 512) == wanted:
                return
        raise WalletError(f"TVW_CON_002: the MTU is {link.mtu}")

    async def write(self, uuid: str, value: bytes) -> None:
        assert self.link is not None
        await self.link.command(uuid, value)

    async def write_chunk(self, chunk: bytes, *, first: bool) -> None:
        await self.write(self.dialect.submit_response, chunk)

    async def request_report(self) -> None:
        assert self.link is not None
        if not self._has_asked:
            self._has_asked = True
            self.link.when_sent(self._on_sent)
            self.link.listen(self.dialect.report_response, self._if_in_time(self.on_report))
            self.link.listen(self.dialect.verification_status, self._if_in_time(self.on_status))
        await self.write(self.dialect.report_request, b"\x01")
        await self.link.sent()

    def _on_sent(self) -> None:
        self._listens_from = self.phone.arrived + self.LISTENS_AFTER

    def _if_in_time(self, handler: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """Drops packets that arrive before the app listens. The packets' timestamps decide, because this process may itself be late."""

        def hear(value: bytes) -> None:
            if self._listens_from is not None and self.phone.arrived >= self._listens_from:
                handler(value)

        return hear

    def parse_report(self, value: bytes) -> Report:
        return android_report(value)
