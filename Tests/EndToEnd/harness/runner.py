"""Runs tests one after the other, and prints a table. A test is a coroutine with a sentence as its name."""
from __future__ import annotations

import asyncio
import json
import re
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness import limits
from harness.machine import run
from harness.pace import measure_again
from harness.stage import Stage

Body = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Test:
    sentence: str
    body: Body
    limit: float
    suite: str
    #: Whether a second service uses the adapter during the test, and must not be affected.
    tenant: bool
    #: Whether the test prints a speed: then the other guest on this machine waits meanwhile.
    measures: bool


@dataclass
class Result:
    sentence: str
    suite: str
    ok: bool
    seconds: float
    measured: list[str] = field(default_factory=list)
    error: str = ""


class Suite:
    """A list of tests in the order of their definition."""

    def __init__(self, name: str, tenant: bool = False, measures: bool = False) -> None:
        """
        tenant: whether a second service, `harness.tenant`, is on the adapter during its tests.
        measures: whether they show how fast something is.
        """
        self.name = name
        self.tenant = tenant
        self.measures = measures
        self.tests: list[Test] = []

    def test(self, sentence: str, limit: float = 60, measures: bool = False) -> Callable[[Body], Body]:
        """
        limit: seconds that it may take on a guest of the reference speed.
        measures: whether it shows how fast something is, where not the whole suite does.
        """

        def add(body: Body) -> Body:
            self.tests.append(Test(sentence, body, limit, self.name, self.tenant, measures or self.measures))
            return body

        return add


def slug(sentence: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", sentence.lower()).strip("-")[:80]


def words(error: BaseException) -> str:
    """The first cause of several simultaneous failures."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def _keep_evidence(stage: Stage, number: int, test: Test, since: str, error: str) -> None:
    folder = stage.out / "failed" / f"{number:02}-{slug(test.sentence)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "error.txt").write_text(error)
    journal = await run("journalctl", "--no-pager", "-o", "short-precise", f"--after-cursor={since}", check=False)
    (folder / "journal.log").write_text(journal + "\n")


async def _run_one(stage: Stage, number: int, test: Test) -> Result:
    stage.measured = []
    await measure_again(stage.bus)
    since, begin = await stage.machine.journal_end(), time.monotonic()
    error, limit = "", limits.limit(test.limit)
    whole = asyncio.timeout(limit)
    try:
        await stage.invite_tenant(test.tenant)
        begin = time.monotonic()
        async with whole:
            await test.body(stage)
        stage.check_tenant()
    except TimeoutError as late:
        what = f"not over within {limit:.0f} s" if whole.expired() else str(late) or "something in it took too long"
        error = f"{what}\n{traceback.format_exc()}"
    except (Exception, asyncio.CancelledError) as failure:
        error = f"{words(failure)}\n{traceback.format_exc()}"
    seconds = time.monotonic() - begin
    if crash := await stage.machine.bluetoothd_crash(since):
        error = f"bluetoothd crashed: {crash}\n{error}"
    if error:
        await _keep_evidence(stage, number, test, since, error)
    return Result(test.sentence, test.suite, not error, seconds, stage.measured, error)


def row(result: Result) -> str:
    mark = "ok    " if result.ok else "FAILED"
    figures = f"  [{', '.join(result.measured)}]" if result.measured else ""
    return f"{result.seconds:6.1f} s  {mark}  {result.sentence}{figures}"


@dataclass
class Run:
    """The results of this guest, and of an earlier one whose kernel had a fault."""

    results: list[Result] = field(default_factory=list)
    #: Names of the tests that another guest still has to run. None where this guest has run all.
    rest: list[str] | None = None
    #: Names of the tests during which a kernel fault occurred.
    breaking: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Run:
        if not path.exists():
            return cls()
        found = json.loads(path.read_text())
        return cls([Result(**result) for result in found["results"]], found["rest"], found["breaking"])

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @property
    def ok(self) -> bool:
        return not self.rest and all(result.ok for result in self.results)


async def run_all(stage: Stage, tests: list[Test], done: Run) -> Run:
    """Runs the tests, and prints a line for each. After a kernel fault it stops and leaves the rest to another guest, including the
    test that failed over it, if that is its first fault."""
    for number, test in enumerate(tests, start=1):
        async with stage.turns.turn(alone=test.measures) if stage.turns else nullcontext():
            # The number of earlier tests, including the one with a kernel fault: each failure has a folder of its own.
            result = await _run_one(stage, len(done.results) + len(done.breaking) + 1, test)
        if fault := await stage.machine.kernel_fault():
            print(f"            the kernel of the guest broke during \"{test.sentence}\": {fault}", flush=True)
            done.rest = [other.sentence for other in tests[number:]]
            if not result.ok and test.sentence not in done.breaking:
                done.breaking.append(test.sentence)
                done.rest.insert(0, test.sentence)
                return done
        done.results.append(result)
        print(row(result), flush=True)
        if not result.ok:
            print("            " + result.error.splitlines()[0][:200], flush=True)
        if done.rest is not None:
            return done
        if not result.ok:
            try:
                await stage.reset()
            except Exception as failure:
                print(f"            the stage could not be cleared: {words(failure)}", flush=True)
    return done
