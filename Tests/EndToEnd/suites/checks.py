"""The installed checker judges what phones bring: genuine, forged, expired, revoked and untrusted credentials of two formats."""
from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import Any

from harness.limits import slowness
from harness.machine import run, systemctl
from harness.runner import Suite
from harness.service import TRANSFER, Settings
from harness.stage import Stage, settings
from phones.android import AndroidWallet
from phones.ios import IOSWallet
from phones.tuvali import DIALECTS
from phones.wallet import Visit, Wallet
from suites.visits import visit

suite = Suite("checks")
SAMPLES = Path(__file__).parents[2] / "Check" / "samples"
TRUST = Path("/etc/earshot/issuers.d")
STATUS = Path("/var/lib/earshot-check/status")
SOCKET = "earshot-check.socket"
#: An emulated processor takes this many times as long for a check as the unit's limits for a slow machine expect.
EMULATION = 4
DROP_IN = Path("/run/systemd/system/earshot-check@.service.d/slow.conf")

#: The file, the verdict, and its reason codes.
CASES: list[tuple[str, str, list[str]]] = [
    ("ldp-RsaSignature2018-RS256.json", "valid", []),
    ("ldp-forged.json", "invalid", ["signatureWrong"]),
    ("ldp-expired.json", "expired", ["expired"]),
    ("ldp-revoked.json", "revoked", ["revoked"]),
    ("ldp-other-issuer.json", "untrusted", ["issuerUnknown"]),
    ("sdjwt-ES256.txt", "valid", []),
    ("sdjwt-forged.txt", "invalid", ["disclosureUnused"]),
    ("sdjwt-expired.txt", "expired", ["expired"]),
    ("sdjwt-revoked.txt", "revoked", ["revoked"]),
    ("sdjwt-self-made.txt", "untrusted", ["chainUntrusted"]),
]
GENUINE, FORGED = "ldp-RsaSignature2018-RS256.json", "ldp-forged.json"
#: Seconds after the arrival of the credential.
MOMENTS = [0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.1, 1.5, 2.0]


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


async def install_trust() -> None:
    """Trusts the issuer of the samples, and installs its status lists, however old they are."""
    TRUST.mkdir(parents=True, exist_ok=True)
    for file in (SAMPLES / "trust").iterdir():
        (TRUST / file.name).write_text(file.read_text().replace('max_age = "7d"', 'max_age = "36500d"'))
    shutil.copytree(SAMPLES / "status", STATUS, dirs_exist_ok=True)
    await run("chmod", "-R", "go-w,a+rX", str(TRUST), str(STATUS.parent))
    await run("chown", "-R", "root:root", str(TRUST))


def check_settings() -> Settings:
    """The kiosk decides by the verdict. Its timeouts are those of a slow machine (docs/check.md, "Slow machines")."""
    factor = EMULATION * slowness()
    timeout, decision = min(300, round(12 * factor)), min(3600, round(30 * factor))
    return settings(Check="yes", Decision="check", CheckTimeout=f"{timeout}s", DecisionTimeout=f"{decision}s")


async def raise_limits() -> None:
    """Gives the checker the limits of a slow machine."""
    factor = EMULATION * slowness()
    cpu, seconds = round(5 * factor), min(270, round(10 * factor))
    text = ("[Service]\nExecStart=\n"
            f"ExecStart=/usr/bin/earshot-check verify --timeout {seconds * 0.9:.0f} --cpu-time {cpu} -\n"
            f"RuntimeMaxSec={seconds}\nLimitCPU={cpu}\n")
    if not DROP_IN.exists() or DROP_IN.read_text() != text:
        DROP_IN.parent.mkdir(parents=True, exist_ok=True)
        DROP_IN.write_text(text)
        await systemctl("daemon-reload")


async def begin(stage: Stage) -> None:
    await install_trust()
    await raise_limits()
    await systemctl("start", SOCKET)
    await stage.set(check_settings())


async def bring(stage: Stage, wallet: Wallet, text: bytes) -> tuple[Visit, str]:
    """A phone transfers a credential, and the kiosk judges it by itself; returns the result, and the transfer's path."""
    uri = await stage.kiosk.invitation()
    result = await wallet.present(uri, text)
    return result, await stage.kiosk.received.get()


async def until_judged(stage: Stage, path: str) -> dict[str, Any]:
    """Waits for the verdict on a credential; returns the transfer."""

    async def test() -> dict[str, Any] | None:
        found = await stage.kiosk.transfer(path)
        return found if found["Verdict"] not in ("", "pending") else None

    return await stage.bus.until(f"{path} has a verdict", test, 30 * EMULATION)


def _add(file: str, verdict: str, codes: list[str]) -> None:
    kind = "SD-JWT" if file.startswith("sdjwt") else "JSON-LD credential"
    end = "accepted" if verdict == "valid" else "rejected"

    @suite.test(f"A phone brings {file}: the {kind} is {verdict}, and the phone is {end}", limit=40 * EMULATION)
    async def test(stage: Stage) -> None:
        await begin(stage)
        since = time.time()
        wallet = IOSWallet(stage.phone, DIALECTS["0.5"], mtu=517)
        if file.startswith("sdjwt"):
            wallet = AndroidWallet(stage.phone, DIALECTS["0.5"], newer=True, mtu=517)
        result, path = await bring(stage, wallet, sample(file))
        transfer = await stage.kiosk.transfer_end(path, end, timeout=30 * EMULATION)
        assert transfer["Verdict"] == verdict, transfer
        assert [code for code, _ in transfer["VerdictReasons"]] == codes, transfer
        assert result.accepted is (end == "accepted"), f"the wallet heard {result.status}"
        journal = await stage.kiosk.journal(since)
        words = f"The credential is {verdict}" + (f" ({', '.join(codes)})" if codes else "")
        assert words in journal, journal
        if verdict == "valid":
            claims = await stage.kiosk.call(path, TRANSFER, "GetClaims")
            assert "Asha" in claims, f"the holder's name is not among the claims: {claims}"
            assert await stage.kiosk.credential(path) == sample(file), "something else was received"


for case in CASES:
    _add(*case)


def _add_kill(file: str, what: str) -> None:
    @suite.test(f"A checker that is killed at ten moments loses no {what} credential and accepts none that is not valid", limit=200 * EMULATION)
    async def test(stage: Stage) -> None:
        await begin(stage)
        seen: dict[str, int] = {}
        for moment in MOMENTS:
            wallet = IOSWallet(stage.phone, DIALECTS["0.5"], mtu=517)
            uri = await stage.kiosk.invitation()
            brought = asyncio.ensure_future(wallet.present(uri, sample(file)))
            path = await stage.kiosk.received.get()
            await asyncio.sleep(moment)  # the moment is what is tested
            await systemctl("kill", "--signal=KILL", "earshot-check@*.service", check=False)
            transfer = await until_judged(stage, path)
            verdict = transfer["Verdict"]
            seen[verdict] = seen.get(verdict, 0) + 1
            if verdict == "undecided":
                codes = [code for code, _ in transfer["VerdictReasons"]]
                assert codes == ["checkerFailed"], codes
                assert transfer["State"] == "received", transfer
                assert await stage.kiosk.credential(path) == sample(file), "the credential is another one"
                await stage.kiosk.judge(path, False)
            else:
                assert verdict == ("valid" if file == GENUINE else "invalid"), transfer
            result = await brought
            assert result.accepted is (verdict == "valid"), f"{verdict}, and the wallet heard {result.status}"
        stage.measure(", ".join(f"{count} {verdict}" for verdict, count in sorted(seen.items())))


_add_kill(GENUINE, "genuine")
_add_kill(FORGED, "forged")


@suite.test("Without the checker's socket a credential waits undecided, and is judged when the socket is there", limit=60 * EMULATION)
async def without(stage: Stage) -> None:
    await install_trust()
    await raise_limits()
    await systemctl("stop", SOCKET)
    await stage.set(check_settings())
    assert "earshot-check.socket" in (await stage.kiosk.properties())["Checker"]
    wallet = IOSWallet(stage.phone, DIALECTS["0.5"], mtu=517)
    brought = asyncio.ensure_future(wallet.present(await stage.kiosk.invitation(), sample(GENUINE)))
    path = await stage.kiosk.received.get()
    transfer = await until_judged(stage, path)
    assert (transfer["Verdict"], transfer["State"]) == ("undecided", "received"), transfer
    await systemctl("start", SOCKET)
    await brought
    await stage.kiosk.transfer_end(path, "accepted", timeout=30 * EMULATION)


@suite.test("The next wallet is served without the checker when Check= is off again")
async def off(stage: Stage) -> None:
    await systemctl("stop", SOCKET)
    await stage.set()
    await visit(stage, IOSWallet(stage.phone, DIALECTS["0.5"], mtu=517), sample(GENUINE))
