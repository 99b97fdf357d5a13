"""The Android wallet (tuvali 0.5.2): it never writes a CCCD, writes only commands, and listens late."""
from __future__ import annotations

import asyncio
from collections.abc import Callable

from phones.phone import Link, Phone
from phones.tuvali import Dialect, Report, android_report
from phones.wallet import Wallet, WalletError


class AndroidWallet(Wallet):
    kind = "Android"

    #: What is asked for, one after the other, and how long each answer is waited for, however soon it comes.
    MTUS = (512, 185, 100)
    MTU_SLOT = 0.5
    #: From the report request's way to the controller to the moment at which the app hears reports.
    LISTENS_AFTER = 0.02

    def __init__(
        self, phone: Phone, dialect: Dialect, *, mtu: int = 517, newer: bool = True, damages: int = 0
    ) -> None:
        """
        newer: Android 14 and later asks for 517 whatever the app wants, and once a connection.
        """
        super().__init__(phone, dialect, mtu=mtu, damages=damages)
        self.newer = newer
        #: When the app began to hear reports and the verdict; None until the first request for a report is sent.
        self._listens_from: float | None = None
        self._has_asked = False

    async def prepare(self, link: Link) -> None:
        await link.discover(self.dialect.service)
        await self._negotiate(link)
        link.listen(self.dialect.disconnect, self.on_disconnect)

    async def _negotiate(self, link: Link) -> None:
        """Takes an MTU only where, capped at 512, it is just the one that was asked for."""
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
        """What arrives on the phone before the app listens is lost. Packets' times tell, for this process may itself be late."""

        def hear(value: bytes) -> None:
            if self._listens_from is not None and self.phone.arrived >= self._listens_from:
                handler(value)

        return hear

    def parse_report(self, value: bytes) -> Report:
        return android_report(value)
