"""The common part of both wallets: the transfer from the QR code to the verdict. Each wallet writes and listens in its own way."""
from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from bumble.hci import Address

from phones.phone import Link, LinkLost, Phone, Sighting
from phones.tuvali import (
    ACCEPTED,
    REJECTED,
    Dialect,
    Invitation,
    Report,
    ReportKind,
    Session,
    chunks,
    response_size,
    service_data,
    service_list,
)


class Point(Enum):
    """Points at which a transfer can be interrupted."""

    ADVERTISING = "while it advertises"
    CONNECTED = "after the connection"
    IDENTIFIED = "after Identify"
    MID_CHUNKS = "amid the chunks"
    DECISION = "while the verdict is awaited"


Hook = Callable[[Point], Awaitable[None]]


class WalletError(Exception):
    """The wallet gives up, with the original library's error code."""


class Dismissed(WalletError):
    """The verifier asked to disconnect."""


@dataclass
class Visit:
    """The result of a transfer."""

    mtu: int = 0
    frame: int = 0
    chunks: int = 0
    #: Number of chunks that reports listed, and number of reports that listed some.
    resent: int = 0
    rounds: int = 0
    status: int | None = None
    #: Seconds from the first chunk to the request for a report, which a phone with write requests knows to have arrived; and to
    #: SUCCESS.
    written: float = 0
    seconds: float = 0
    #: Packets of data on the link, both ways, from the first chunk to SUCCESS.
    packets: int = 0
    #: Whether the wallet ended the link.
    left: bool = False

    @property
    def accepted(self) -> bool:
        return self.status == ACCEPTED


async def onwards(_: Point) -> None:
    pass


class Wallet(ABC):
    """A wallet on a phone."""

    kind: str
    #: Number of reports of missing chunks that are answered; at the next one the wallet gives up.
    ROUNDS = 15

    def __init__(self, phone: Phone, dialect: Dialect, *, mtu: int = 517, damages: int = 0) -> None:
        """mtu: the maximum of the phone's system.
        damages: interval of the first-time chunks that arrive with a wrong bit; 0 for none."""
        self.phone = phone
        self.dialect = dialect
        self.mtu = mtu
        self.damages = damages
        self.visit = Visit()
        self.link: Link | None = None
        self.reports: asyncio.Queue[Report] = asyncio.Queue()
        #: All received values, in order, with their interpretation.
        self.heard: list[tuple[str, bytes]] = []
        self.dismissed = asyncio.Event()
        self._verdict: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # Behaviour that differs between phones.

    @abstractmethod
    async def prepare(self, link: Link) -> None:
        """From the connection to the moment at which the app is notified of it."""

    @abstractmethod
    async def write(self, uuid: str, value: bytes) -> None:
        """Writes Identify or the size."""

    @abstractmethod
    async def write_chunk(self, chunk: bytes, *, first: bool) -> None: ...

    @abstractmethod
    async def request_report(self) -> None:
        """Requests a report; the phone can receive it when this returns."""

    @abstractmethod
    def parse_report(self, value: bytes) -> Report: ...

    # The transfer.

    async def find(self, uri: str) -> tuple[Address, bytes]:
        """Discovers the verifier; returns its address and its key, which wallets take from the advertisement."""
        wanted = Invitation.parse(uri).service_data

        def matches(seen: Sighting) -> tuple[Address, bytes] | None:
            first = service_data(seen.data, self.dialect.service)
            rest = service_data(seen.scan_response, self.dialect.scan_response)
            if self.dialect.service not in service_list(seen.data) or first != wanted or rest is None:
                return None
            return seen.address, first[-5:] + rest

        return await self.phone.look(matches)

    async def present(self, uri: str, credential: bytes, at: Hook = onwards) -> Visit:
        """Transfers the credential; returns when the link has ended after the verdict.

        `at` is called at each point of the transfer and may end it by raising."""
        address, key = await self.find(uri)
        await at(Point.ADVERTISING)
        link = self.link = await self.phone.connect(address, self.mtu)
        try:
            await self.bring(link, key, credential, at)
        finally:
            if self.phone.is_on:
                await link.disconnect()
        self.visit.left = link.left
        return self.visit

    async def bring(self, link: Link, key: bytes, credential: bytes, at: Hook = onwards) -> None:
        """The transfer from the connection to the verdict. A malformed report that crashes the app ends this wallet, too."""
        work = asyncio.ensure_future(self._transfer(link, key, credential, at))
        await asyncio.wait({work, self._broken}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            self._broken.result()
        await work

    async def _transfer(self, link: Link, key: bytes, credential: bytes, at: Hook) -> None:
        await self.prepare(link)
        self.visit.mtu = link.mtu
        await at(Point.CONNECTED)
        session = Session(key)
        await self.write(self.dialect.identify, session.identify)
        await at(Point.IDENTIFIED)
        frame = session.seal(credential)
        all_chunks = chunks(frame, min(link.mtu, 512) - 3)
        self.visit.frame, self.visit.chunks = len(frame), len(all_chunks)
        await self.write(self.dialect.response_size, response_size(frame))
        begin, packets = time.monotonic(), self.phone.data_packets
        for number, chunk in enumerate(all_chunks, start=1):
            if number == len(all_chunks) // 2 + 1:
                await at(Point.MID_CHUNKS)
            await self.write_chunk(self._on_the_air(number, chunk), first=True)
        await self._repair(link, all_chunks, begin)
        self.visit.seconds = time.monotonic() - begin
        self.visit.packets = self.phone.data_packets - packets
        await at(Point.DECISION)
        self.visit.status = await self._or_dismissed(link, self._verdict)

    def _on_the_air(self, number: int, chunk: bytes) -> bytes:
        if self.damages and number % self.damages == 0:
            return chunk[:-1] + bytes([chunk[-1] ^ 0x01])
        return chunk

    async def _repair(self, link: Link, all_chunks: list[bytes], begin: float) -> None:
        """Requests reports and sends the listed chunks, until a report is SUCCESS."""
        while True:
            await self.request_report()
            self.visit.written = time.monotonic() - begin
            report = await self._or_dismissed(link, asyncio.ensure_future(self.reports.get()))
            if report.kind is ReportKind.SUCCESS:
                return
            if self.visit.rounds == self.ROUNDS:
                raise WalletError("TVW_REP_001: the limit of retries is reached")
            self.visit.rounds += 1
            self.visit.resent += len(report.missing)
            for sequence in report.missing:
                await self.write_chunk(all_chunks[sequence - 1], first=False)

    async def _or_dismissed(self, link: Link, work: asyncio.Future) -> object:
        """Waits for `work`; the end of the link and Disconnect are errors."""
        dismissed = asyncio.ensure_future(self.dismissed.wait())
        try:
            await asyncio.wait({work, dismissed, link.closed}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            work.cancel()
            if dismissed.done():
                raise Dismissed("the verifier asked to disconnect")
            raise LinkLost(f"the link was closed, reason 0x{link.closed.result():02x}")
        finally:
            dismissed.cancel()

    # Receiving.

    def on_report(self, value: bytes) -> None:
        self.heard.append(("report", value))
        try:
            self.reports.put_nowait(self.parse_report(value))
        except Exception as error:
            if not self._broken.done():
                self._broken.set_exception(error)

    def on_status(self, value: bytes) -> None:
        self.heard.append(("status", value))
        if not self._verdict.done():
            self._verdict.set_result(ACCEPTED if value[0] == ACCEPTED else REJECTED)

    def on_disconnect(self, value: bytes) -> None:
        self.heard.append(("disconnect", value))
        if value[0] == 1:
            self.dismissed.set()
