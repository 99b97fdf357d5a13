"""The selection of tests for a run in which all would take too long: some of each suite, including those whose faults others would not
notice.

`make e2e ALL=1` runs everything; so does a run without a budget, as on a developer's machine."""
from __future__ import annotations

from harness.runner import Test

SELECTION = (
    "The phones speak the protocol of the vectors",
    "The Bitchat phones speak the protocol of the vectors",
    "The Bitchat phones refuse what the apps refuse",
    "A wallet on Linux brings 10 KB to a verifier on Linux that speaks 0.4 alone, and is rejected",
    "Two nodes find each other, and what is said to all and in private arrives with its ticks",
    "What a program says is on the air as the vectors have it, not connectable, from one address of its own, for 4 s, and then nothing "
    "for 2 s",
    "Both dialects are on the air at once, byte for byte as the original sends them",
    "A kiosk that is a node of the mesh has its two invitations and the mesh's advertisement on the air at once",
    "An iOS wallet (0.5, MTU 517) brings 10 KB and is accepted",
    "An iOS wallet (0.4, MTU 512) brings 100 KB and is rejected",
    "An iOS wallet (0.5, MTU 100) brings 10 KB and is accepted",
    "An Android 14 wallet (0.5, MTU 517) brings 10 KB and is accepted",
    "An older Android wallet (0.4, MTU 185) brings 10 KB and is accepted",
    "An Android wallet sends again what arrived damaged",
    "A program of root that listens to all there is on the bus reads no GATT value",
    "Of two wallets that subscribed, the one that is not served hears nothing of what the other is told",
    "An Android 14 wallet is served beside three subscribed phones, time after time",
    "A phone that says nothing is let go after ten seconds, and the next wallet is served",
    "An Android phone that connects at 45 ms is asked for 11.25 to 15 ms, goes there, and is accepted",
    "The next wallet is served when bluetoothd is killed amid the chunks",
    "The next wallet is served when the adapter is switched off and on after the connection",
    "The next wallet is served when the wallet vanishes amid the chunks",
    "Idle, the kiosk uses next to nothing of the processor",
    "Without CAP_NET_ADMIN it does what BlueZ alone can, and says what is missing",
    "Without CAP_NET_RAW it serves wallets that subscribe, and says what is missing",
    "Started without bluetoothd it waits, and serves when bluetoothd comes",
    "An iOS phone with a protected battery level, whose user leaves a request to pair open, transfers 3 credentials without such a request",
    "A bluetoothd that is stopped while no wallet is connected is noticed, and the next wallet is served when it continues",
    "Stopped by systemd it ends at once, and its state directory is its own",
    "A private text of 200 bytes arrives from an Android phone that connects, whose padded packet has 512",
    "A picture that an iPhone and a node give each other in private is acknowledged, by the name that the app gives it",
)

#: Suites without a test in the selection: their tests take 25 s or longer in an emulated guest, check what only a guest with a
#: processor of its own can fulfil, or wait for pauses of the protocol (`ALL=1` runs them).
DESK = ("checks", "clients", "goodput", "mail", "meshfaults", "meshparcels", "meshspeed", "presence", "roles", "scanning", "subscribing", "traces")

#: Seconds of a suite on a guest of the reference speed: those in which it waits, which are equal on a slow guest, and those in which it
#: works.
SECONDS = {
    "formats": (0, 1), "linux": (0, 45), "mesh": (0, 1100), "meshfaults": (30, 250), "meshparcels": (30, 300), "meshspeed": (260, 330),
    "apps": (60, 340), "media": (160, 520), "mail": (40, 235), "roles": (90, 90), "scanning": (160, 40), "clients": (60, 200), "traces": (90, 150),
    "broadcast": (420, 120), "presence": (20, 60), "advertising": (0, 15), "transfers": (0, 180), "checks": (100, 250), "privacy": (0, 45), "crowds": (0, 350),
    "battery": (0, 200), "subscribing": (0, 60), "hardware": (60, 40), "silence": (210, 40), "speed": (0, 130), "goodput": (0, 130), "faults": (0, 120), "degraded": (50, 95),
}


def mistakes(tests: list[Test]) -> list[str]:
    """Disagreements between the selection and the existing tests."""
    sentences = {test.sentence for test in tests}
    suites = {test.suite for test in tests}
    selected = {test.suite for test in tests if test.sentence in SELECTION}
    return [
        *(f"the selection names no test: {sentence}" for sentence in SELECTION if sentence not in sentences),
        *(f"the selection has no test of {suite}" for suite in sorted(suites - selected - set(DESK))),
        *(f"SECONDS has no {suite}" for suite in sorted(suites - SECONDS.keys())),
    ]


def expected(tests: list[Test], slowness: float) -> float:
    """Seconds of all tests of these suites."""
    found = [SECONDS[suite] for suite in {test.suite for test in tests}]
    return sum(waiting + working * slowness for waiting, working in found)


def choose(tests: list[Test], slowness: float, budget: float | None) -> list[Test]:
    """All tests, or the selection where all would exceed the budget; prints the choice."""
    seconds = expected(tests, slowness)
    if budget is None or seconds <= budget:
        print(f"All {len(tests)} tests, some {seconds:.0f} s", flush=True)
        return tests
    chosen = [test for test in tests if test.sentence in SELECTION]
    print(f"A selection of {len(chosen)} of {len(tests)} tests, for all would take some {seconds:.0f} s and {budget:.0f} s are "
          "there (ALL=1 runs everything):", flush=True)
    for test in chosen:
        print(f"    {test.suite}: {test.sentence}", flush=True)
    return chosen
