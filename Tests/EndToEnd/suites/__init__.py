"""The tests, in the order in which they run.

Linux to Linux comes early: the virtual controllers join a link correctly only while both ends give it one number, and later those of
the kiosk have had more links than the second service's."""
from __future__ import annotations

from harness.runner import Test
from suites import (
    advertising, apps, battery, broadcast, checks, clients, crowds, degraded, faults, formats, goodput, hardware, linux, mail, media, mesh,
    mesh_faults, mesh_parcels, mesh_speed, presence, privacy, roles, scanning, silence, speed, subscribing, traces, transfers,
)

MODULES = (
    formats, linux, mesh, mesh_faults, mesh_parcels, mesh_speed, apps, media, mail, roles, scanning, clients, traces, broadcast,
    presence, advertising, transfers, checks, battery, privacy, crowds, subscribing, silence, speed, goodput, faults, hardware, degraded,
)


def all_tests() -> list[Test]:
    return [test for module in MODULES for test in module.suite.tests]
