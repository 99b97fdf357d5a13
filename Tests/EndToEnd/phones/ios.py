"""The iOS wallet (tuvali-ios-swift 0.5.0): it subscribes at once, writes requests, and paces its chunks."""
from __future__ import annotations

import asyncio

from phones.phone import Link
from phones.tuvali import Report, ios_report
from phones.wallet import Wallet, WalletError


class IOSWallet(Wallet):
    kind = "iOS"

    #: Pause after each chunk that is sent for the first time.
    PACE = 0.02
    LEAST_WRITE = 64

    async def prepare(self, link: Link) -> None:
        await link.exchange_mtu(self.mtu)
        await link.discover(self.dialect.service)
        if link.mtu - 3 < self.LEAST_WRITE:
            raise WalletError(f"TVW_CON_002: the MTU is {link.mtu}")
        await link.subscribe(self.dialect.disconnect, self.on_disconnect)
        await link.subscribe(self.dialect.report_response, self.on_report)
        await link.subscribe(self.dialect.verification_status, self.on_status)

    async def write(self, uuid: str, value: bytes) -> None:
        assert self.link is not None
        await self.link.request(uuid, value)

    async def write_chunk(self, chunk: bytes, *, first: bool) -> None:
        assert self.link is not None
        if first:
            await self.link.command(self.dialect.submit_response, chunk)
            await asyncio.sleep(self.PACE)
        else:
            await self.link.request(self.dialect.submit_response, chunk)

    async def request_report(self) -> None:
        await self.write(self.dialect.report_request, b"\x01")

    def parse_report(self, value: bytes) -> Report:
        return ios_report(value)
