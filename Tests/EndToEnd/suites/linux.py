"""A wallet on Linux and a verifier on Linux: the same program twice, on two adapters of one bluetoothd."""
from __future__ import annotations

from harness.instances import one_more
from harness.machine import KIOSK, SECOND
from harness.runner import Suite
from harness.service import TRANSFER, WALLET, WALLET_PATH, Service, Settings
from harness.stage import SETTINGS, Stage, settings
from suites.visits import KB, clerk, credential

suite = Suite("linux", tenant=True)


async def second_service(stage: Stage, adapter: int) -> Service:
    service = await one_more(stage.bus, "second")
    await stage.machine.until_powered(adapter)
    await service.start({"Radio": {"Adapter": f"hci{adapter}"}, "Log": {"Level": "debug"}})
    return service


async def send(stage: Stage, wanted: Settings, size: int, accept: bool) -> None:
    uri = await stage.set(wanted)
    await bring(stage, uri, size, accept)
    assert await stage.kiosk.invitation() != uri


async def bring(stage: Stage, uri: str, size: int, accept: bool, adapter: int = SECOND) -> None:
    """A wallet on another adapter transfers a credential to the kiosk."""
    text = credential(size)
    second = await second_service(stage, adapter)
    try:
        await second.until_radio("ready")
        path = await second.call(WALLET_PATH, WALLET, "Send", "ss", uri, text.decode())
        judged = await clerk(stage, text, accept)
        end = "accepted" if accept else "rejected"
        sent = await second.until("the wallet knows", TRANSFER, path, State=end, Live=False)
        assert sent["ErrorCode"] == "" == judged["ErrorCode"], (sent, judged)
        stage.measure(f"MTU {sent['Mtu']}")
    finally:
        await second.stop()


@suite.test(f"A wallet on Linux (hci{SECOND}) brings 100 KB to a verifier on Linux (hci{KIOSK}) and is accepted")
async def accepted(stage: Stage) -> None:
    await send(stage, SETTINGS, 100 * KB, True)


@suite.test("A wallet on Linux brings 10 KB to a verifier on Linux that speaks 0.4 alone, and is rejected")
async def rejected(stage: Stage) -> None:
    await send(stage, settings(Dialects="0.4"), 10 * KB, False)
