"""Complete transfers: every wallet, every dialect, every MTU, every size, both verdicts; chunks that arrive damaged."""
from __future__ import annotations

from collections.abc import Callable

from harness.runner import Suite
from harness.stage import Stage
from phones.android import AndroidWallet
from phones.ios import IOSWallet
from phones.phone import Phone
from phones.tuvali import DIALECTS
from phones.wallet import Wallet
from suites.visits import SIZES, credential, speed, visit

suite = Suite("transfers", tenant=True)
Maker = Callable[[Phone, str, int], Wallet]


def newer_android(phone: Phone, dialect: str, mtu: int) -> Wallet:
    return AndroidWallet(phone, DIALECTS[dialect], newer=True, mtu=mtu)


def older_android(phone: Phone, dialect: str, mtu: int) -> Wallet:
    return AndroidWallet(phone, DIALECTS[dialect], newer=False, mtu=mtu)


def ios(phone: Phone, dialect: str, mtu: int) -> Wallet:
    return IOSWallet(phone, DIALECTS[dialect], mtu=mtu)


#: The large ones are transferred once with each wallet: they take half a minute.
MATRIX: list[tuple[str, Maker, str, int, str, bool]] = [
    ("An iOS wallet", ios, "0.5", 517, "10 KB", True),
    ("An iOS wallet", ios, "0.4", 512, "100 KB", False),
    ("An iOS wallet", ios, "0.5", 247, "100 KB", False),
    ("An iOS wallet", ios, "0.4", 185, "10 KB", True),
    ("An iOS wallet", ios, "0.5", 100, "10 KB", True),
    ("An iOS wallet", ios, "0.4", 517, "1 byte", False),
    ("An iOS wallet", ios, "0.5", 517, "717 KB", True),
    ("An Android 14 wallet", newer_android, "0.5", 517, "10 KB", True),
    ("An Android 14 wallet", newer_android, "0.4", 517, "100 KB", False),
    ("An older Android wallet", older_android, "0.5", 512, "100 KB", False),
    ("An older Android wallet", older_android, "0.4", 185, "10 KB", True),
    ("An older Android wallet", older_android, "0.5", 100, "10 KB", True),
    ("An older Android wallet", older_android, "0.4", 512, "1 byte", False),
    ("An Android 14 wallet", newer_android, "0.5", 517, "717 KB", True),
]


def _add(who: str, make: Maker, dialect: str, mtu: int, size: str, accept: bool) -> None:
    verdict = "accepted" if accept else "rejected"

    @suite.test(f"{who} ({dialect}, MTU {mtu}) brings {size} and is {verdict}", limit=120)
    async def test(stage: Stage) -> None:
        await stage.set()
        result, _ = await visit(stage, make(stage.phone, dialect, mtu), credential(SIZES[size]), accept)
        if result.frame > 5000:
            stage.measure(speed(result))
        assert result.rounds == 0, f"{result.resent} chunks were lost on the way"


for case in MATRIX:
    _add(*case)


def _add_damaged(who: str, make: Maker) -> None:
    @suite.test(f"{who} sends again what arrived damaged")
    async def test(stage: Stage) -> None:
        await stage.set()
        wallet = make(stage.phone, "0.5", 517)
        wallet.damages = 5
        result, transfer = await visit(stage, wallet, credential(SIZES["100 KB"]))
        stage.measure(f"{result.resent} of {result.chunks} chunks again")
        assert result.rounds == 1, f"{result.rounds} rounds"
        assert result.resent == result.chunks // 5 == transfer["CrcFailures"], transfer


_add_damaged("An iOS wallet", ios)
_add_damaged("An Android wallet", newer_android)
