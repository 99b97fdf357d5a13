"""A transfer from both sides: the wallet sends a credential, a local program fetches and judges it."""
from __future__ import annotations

import asyncio
import random
from typing import Any

from harness.stage import Stage
from phones.wallet import Hook, Visit, Wallet, onwards

KB = 1000
SIZES = {"1 byte": 1, "10 KB": 10 * KB, "100 KB": 100 * KB, "717 KB": 717 * KB}

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def credential(size: int) -> bytes:
    """A fixed text of this number of bytes, which compresses to three quarters, like pictures in Base64."""
    return "".join(random.Random(size).choices(_LETTERS, k=size)).encode()


async def clerk(stage: Stage, text: bytes, accept: bool) -> dict[str, Any]:
    """The local program: waits for the credential, fetches it, judges it; returns the transfer's final state."""
    path = await stage.kiosk.received.get()
    found = await stage.kiosk.credential(path)
    assert found == text, f"{len(found)} bytes were received, and not what was sent"
    await stage.kiosk.judge(path, accept)
    return await stage.kiosk.transfer_end(path, "accepted" if accept else "rejected")


async def visit(
    stage: Stage, wallet: Wallet, text: bytes, accept: bool = True, at: Hook = onwards
) -> tuple[Visit, dict[str, Any]]:
    """One complete transfer, after which the kiosk waits for the next wallet with a fresh key."""
    uri = await stage.kiosk.invitation()
    async with asyncio.TaskGroup() as group:
        judged = group.create_task(clerk(stage, text, accept))
        brought = group.create_task(wallet.present(uri, text, at))
    result, transfer = brought.result(), judged.result()
    assert result.accepted is accept, f"the wallet heard {result.status}"
    assert result.left, "the wallet was thrown out before it could leave"
    assert not wallet.dismissed.is_set(), "the wallet was asked to leave before it could"
    assert transfer["Dialect"] == wallet.dialect.name, transfer
    assert transfer["Mtu"] == result.mtu, f"the kiosk's MTU is {transfer['Mtu']}, the phone's {result.mtu}"
    assert transfer["ChunksExpected"] == result.chunks, transfer
    assert await stage.kiosk.invitation() != uri, "the next wallet gets the same key"
    return result, transfer


def speed(result: Visit) -> str:
    return f"{result.frame / result.seconds / 1000:.0f} kB/s"
