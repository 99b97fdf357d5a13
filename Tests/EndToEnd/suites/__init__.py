"""The tests, in the order in which they run."""
from __future__ import annotations

from harness.runner import Test
from suites import advertising, degraded, faults, formats, goodput, linux, transfers


def all_tests() -> list[Test]:
    return [test for module in (formats, advertising, transfers, goodput, faults, degraded, linux) for test in module.suite.tests]
