"""A phone that connects and sends nothing: its link is closed after a while, so that it cannot keep others out."""
from __future__ import annotations

import asyncio
import time

from harness.limits import limit
from harness.runner import Suite
from harness.stage import Stage
from phones.ios import IOSWallet
from phones.tuvali import DIALECTS
from suites.visits import KB, credential, visit

suite = Suite("silence")
#: Seconds after which the kiosk closes an idle link, how much earlier a phone may see it that learns of the link later than the kiosk
#: does, and how much later on a slow guest.
SILENCE, SOONER, LATER = 10.0, 1.0, 10.0


async def keep_silent(stage: Stage) -> None:
    """Connects, sends nothing, and is disconnected.

    It stays until then: on kernel 6.1 a phone that repeatedly connects and disconnects at once crashes bluetoothd."""
    address, _ = await IOSWallet(stage.phone, DIALECTS["0.5"]).find(await stage.kiosk.invitation())
    link = await stage.phone.connect(address)
    begin = time.monotonic()
    longest = SILENCE + limit(LATER)
    await asyncio.wait({link.closed}, timeout=longest)
    kept = time.monotonic() - begin
    is_let_go = link.closed.done()
    await link.disconnect()
    assert is_let_go, f"a silent phone still has its link after {longest:.0f} s"
    if kept < SILENCE - SOONER:
        raise AssertionError(f"a silent phone lost its link after {kept:.1f} s, not {SILENCE:.0f}")


@suite.test("A phone that says nothing is let go after ten seconds, and the next wallet is served")
async def once(stage: Stage) -> None:
    await stage.set()
    await keep_silent(stage)
    await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"]), credential(KB))


#: Number of repetitions.
TIMES = 20


@suite.test(f"The same {TIMES} times in a row, and the next wallet is served", limit=TIMES * 20)
async def in_a_row(stage: Stage) -> None:
    await stage.set()
    for _ in range(TIMES):
        await keep_silent(stage)
    await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"]), credential(KB))
