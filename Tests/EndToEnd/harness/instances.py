"""Several instances of the installed service on one machine, each with a bus name, a unit, settings and a state directory of its
own."""
from __future__ import annotations

from pathlib import Path

from harness.bus import BUS, Bus
from harness.machine import systemctl
from harness.service import Service

UNIT = Path("/usr/lib/systemd/system/earshotd.service")
POLICY = Path("/usr/share/dbus-1/system.d/org.earshot.conf")


async def one_more(bus: Bus, name: str) -> Service:
    """Prepares the service `org.earshot.NAME`, which can be started from now on."""
    bus_name, configuration, unit = f"org.earshot.{name}", Path(f"/etc/earshot-{name}.conf"), f"earshotd-{name}.service"
    text = UNIT.read_text()
    for old, new in (
        ("BusName=org.earshot\n", f"BusName={bus_name}\n"),
        ("ExecStart=/usr/bin/earshotd\n", f"ExecStart=/usr/bin/earshotd --bus-name {bus_name} --config {configuration}\n"),
        ("StateDirectory=earshot\n", f"StateDirectory=earshot-{name}\n"),
        ("Alias=dbus-org.earshot.service\n", ""),
    ):
        assert old in text, f"the unit has no line {old!r}"
        text = text.replace(old, new)
    Path("/run/systemd/system", unit).write_text(text)
    Path(f"/etc/dbus-1/system.d/{bus_name}.conf").write_text(POLICY.read_text().replace('"org.earshot"', f'"{bus_name}"'))
    await bus.call(BUS, "/org/freedesktop/DBus", BUS, "ReloadConfig")
    await systemctl("daemon-reload")
    return Service(bus, bus_name, unit, configuration)
