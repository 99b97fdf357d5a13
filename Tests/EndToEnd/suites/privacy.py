"""Values for a wallet reach that wallet only: no other program on the bus reads them, and no other wallet receives them."""
from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from harness import ear
from harness.limits import limit
from harness.runner import Suite
from harness.stage import Stage
from phones.android import AndroidWallet
from phones.ios import IOSWallet
from phones.tuvali import DIALECTS
from phones.wallet import Point, Wallet
from suites.visits import KB, credential, visit

suite = Suite("privacy")
NOBODY, ROOT = 65534, 0
GATT = "org.bluez.GattCharacteristic1"
#: The path of a message that the test itself broadcasts, to see that the listener would receive one.
CONTROL = "/control"
#: Values below this length, whose digits may occur anywhere, are recognized by the property alone.
KNOWN = 8

Record = dict[str, Any]


class Ear:
    """A listener, and the messages that it has received."""

    def __init__(self, user: int, file: Path) -> None:
        self.user = user
        self.file = file

    @property
    def heard(self) -> list[Record]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("}")]

    async def until(self, what: str, kind: str, path: str | None = None) -> None:
        """Waits until it has received such a message."""
        try:
            async with asyncio.timeout(limit(30)):
                while not any(heard["kind"] == kind and (path is None or heard["path"] == path) for heard in self.heard):
                    await asyncio.sleep(0.1)  # a separate process, which reports by its file only
        except TimeoutError:
            raise TimeoutError(f"{what}: user {self.user} heard {self.heard[-3:]}") from None

    def values(self) -> list[Record]:
        """The values of characteristics that it received, without those that the test broadcast itself."""
        return [heard for heard in self.heard if heard["kind"] != "LISTENS" and heard["path"] != CONTROL and (
            "Value" in heard["changed"] or heard["interface"] == GATT
        )]


@asynccontextmanager
async def listening(stage: Stage, user: int) -> AsyncIterator[Ear]:
    file = stage.out / f"ear-{user}.json"
    file.unlink(missing_ok=True)
    process = await asyncio.create_subprocess_exec(sys.executable, ear.__file__, str(user), str(file))
    try:
        listener = Ear(user, file)
        await listener.until("it listens", "LISTENS")
        yield listener
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def wallets(stage: Stage) -> list[Wallet]:
    """One wallet that subscribes and one that does not, in both dialects."""
    return [
        IOSWallet(stage.phone, DIALECTS["0.5"]), AndroidWallet(stage.phone, DIALECTS["0.4"]),
        IOSWallet(stage.phone, DIALECTS["0.4"]), AndroidWallet(stage.phone, DIALECTS["0.5"]),
    ]


def _add(who: str, user: int) -> None:
    @suite.test(f"A program of {who} that listens to all there is on the bus reads no GATT value", limit=120)
    async def test(stage: Stage) -> None:
        await stage.set()
        async with listening(stage, user) as listener:
            said: list[bytes] = []
            for wallet in wallets(stage):
                await visit(stage, wallet, credential(KB))
                assert wallet.heard, "the wallet itself has heard nothing"
                said += [value for _, value in wallet.heard]
            # The listener works: it receives broadcasts, such as the kiosk's state, and a value that was broadcast.
            await stage.bus.emit_properties_changed(CONTROL, GATT, "Value", "ay", b"aloud")
            await listener.until("what the test says", "SIGNAL", CONTROL)
            kiosk = await stage.bus.owner(stage.kiosk.name)
            assert any(heard.get("sender") == kiosk for heard in listener.heard), "it hears nothing of the kiosk at all"
            control = [heard for heard in listener.heard if heard.get("path") == CONTROL]
            assert all(heard["changed"] == ["Value"] and heard["bytes"] == [b"aloud".hex()] for heard in control), control
            values = listener.values()
            assert not values, f"{len(values)} values, the first: {values[0]}"
            long = [value.hex() for value in said if len(value) >= KNOWN]
            shown = [heard for heard in listener.heard for part in heard.get("bytes", []) if any(value in part for value in long)]
            assert not shown, f"what a wallet was told: {shown[0]}"
            stage.measure(f"{len(listener.heard)} messages heard")


_add("root", ROOT)
_add("a user without rights", NOBODY)


@suite.test("Of two wallets that subscribed, the one that is not served hears nothing of what the other is told", limit=120)
async def two_wallets(stage: Stage) -> None:
    uri = await stage.set()
    async with stage.second_phone() as phone:
        other = IOSWallet(phone, DIALECTS["0.5"])

        async def at(point: Point) -> None:
            if point is Point.CONNECTED:
                address, _ = await other.find(uri)
                other.link = await phone.connect(address)
                await other.prepare(other.link)

        wallet = IOSWallet(stage.phone, DIALECTS["0.5"])
        result, _ = await visit(stage, wallet, credential(10 * KB), at=at)
        assert result.rounds == 0, f"{result.rounds} rounds"
        kinds = [kind for kind, _ in wallet.heard]
        assert kinds.count("report") == 1 and kinds.count("status") == 1, wallet.heard
        overheard = [(kind, value) for kind, value in other.heard if kind != "disconnect"]
        assert not overheard, f"the other wallet heard {overheard}"
        assert other.link is not None
        await other.link.disconnect()
