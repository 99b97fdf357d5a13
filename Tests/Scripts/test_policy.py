"""The policies of the bus, tried on a real dbus-daemon: who may call which method, and who receives which signal.

A program stands in for each service. Users and groups that every Debian has stand in for those of the packages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("dbus_fast")
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("dbus-daemon") is None, reason="needs root")

TOP = Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs/dbus.md").read_text()
USERS = {"earshot": "daemon", "earshot-presence": "bin", "earshot-nostr": "sys", "earshot-social": "games"}
GROUPS = {"earshot": "audio", "earshot-view": "video"}
#: The bus name of each service, the user that owns it, and the beginning of its object paths.
SERVICES = {
    "org.earshot.Presence": ("earshot-presence", "/org/earshot/presence"),
    "org.earshot.Nostr": ("earshot-nostr", "/org/earshot/uplink"),
    "org.earshot.Social": ("earshot-social", "/org/earshot/social"),
    "org.earshot": ("earshot", "/org/earshot"),
}
#: Methods of another daemon alone: the policy excludes the group, too.
INTERNAL = {"PresenceRadio1", "MeshUplink1", "MeshUplinkSink1"}
#: Interfaces by which every program may read what earshotd shows to everybody.
READING = [
    ("org.freedesktop.DBus.Properties", "Get"),
    ("org.freedesktop.DBus.Properties", "GetAll"),
    ("org.freedesktop.DBus.Introspectable", "Introspect"),
    ("org.freedesktop.DBus.ObjectManager", "GetManagedObjects"),
]
#: The default policy of a system bus, without the rules about the bus itself.
HEAD = """<busconfig><type>system</type><listen>unix:path={folder}/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><deny own="*"/><deny send_type="method_call"/><allow send_type="signal"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="method_call"/><allow receive_type="method_return"/><allow receive_type="error"/>
<allow receive_type="signal"/><allow send_destination="org.freedesktop.DBus"/></policy>
"""
#: Answers each call with the number of signals of earshotd that it has received, and sends a signal to everybody for a
#: call of Shout.
SERVICE = """
import asyncio, sys
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

async def main():
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    heard = []
    def answer(message):
        if message.member == "Shouted" and message.path == "/org/earshot":
            heard.append(message.path)
        if message.message_type is MessageType.METHOD_CALL:
            if message.member == "Shout":
                bus.send(Message.new_signal(message.path, "org.earshot.Test1", "Shouted"))
            return Message.new_method_return(message, "u", [len(heard)])
    bus.add_message_handler(answer)
    daemon, rule = "org.freedesktop.DBus", "type='signal',interface='org.earshot.Test1'"
    await bus.call(Message(daemon, "/org/freedesktop/DBus", daemon, "AddMatch", signature="s", body=[rule]))
    await bus.request_name(sys.argv[2])
    print("ready", flush=True)
    await bus.wait_for_disconnect()

asyncio.run(main())
"""
#: Makes the calls that standard input lists, and writes which of them were permitted.
CLIENT = """
import asyncio, json, sys
from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus

async def main():
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    permitted = []
    for name, path, interface, member in json.load(sys.stdin):
        reply = await bus.call(Message(destination=name, path=path, interface=interface, member=member))
        if reply.error_name != "org.freedesktop.DBus.Error.AccessDenied":
            assert reply.message_type is MessageType.METHOD_RETURN, reply.body
            permitted.append([name, path, interface, member])
    print(json.dumps(permitted))

asyncio.run(main())
"""
#: Has earshotd send a signal, and writes how many signals the named services have received.
COUNTER = """
import asyncio, sys
from dbus_fast import Message
from dbus_fast.aio import MessageBus

async def main():
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    counts = []
    # The signal precedes the answer to Shout, so the service has it before the next call.
    for name, member in [("org.earshot", "Shout"), *((name, "Count") for name in sys.argv[2:])]:
        call = Message(destination=name, path="/org/earshot", interface="org.earshot.Test1", member=member)
        reply = await bus.call(call)
        counts += reply.body
    print(*counts[1:])

asyncio.run(main())
"""
#: Waits for a signal of each named service until it has one of the last.
LISTENER = """
import asyncio, sys
from dbus_fast import Message
from dbus_fast.aio import MessageBus

async def main():
    bus = await MessageBus(bus_address=sys.argv[1]).connect()
    heard, done = [], asyncio.Event()
    def receive(message):
        if message.member == "Shouted":
            heard.append(message.path)
            if message.path == sys.argv[2]:
                done.set()
    bus.add_message_handler(receive)
    for rule in ("type='signal',interface='org.earshot.Test1'",):
        daemon = "org.freedesktop.DBus"
        await bus.call(Message(daemon, "/org/freedesktop/DBus", daemon, "AddMatch", signature="s", body=[rule]))
    print("ready", flush=True)
    await done.wait()
    print(" ".join(heard))

asyncio.run(main())
"""


def methods() -> list[list[str]]:
    """Every method of docs/dbus.md, with its service, an object and the interface."""
    rows = re.findall(r"^\| `(/org/earshot\S*)` \| `(\S+)` \|$", PAGE, re.MULTILINE)
    paths: dict[str, str] = {interface: path for path, interface in rows}
    paths |= {
        "org.earshot.Social1": "/org/earshot/social",
        "org.earshot.SocialSession1": "/org/earshot/social/session1",
    }
    found = []
    for section in PAGE.split("\n## ")[1:]:
        interface = section.split("\n", 1)[0]
        table = section.split("\n| method |")[1].split("\n\n")[0] if "\n| method |" in section else ""
        path = re.sub(r"ID$|N$", "1", paths[interface])
        name = next(name for name, (_, prefix) in SERVICES.items() if path.startswith(prefix))
        found += [[name, path, interface, member] for member in re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)]
    return found


METHODS = methods()


class Machine:
    """A bus with the policies, and a stand-in for each service."""

    def __init__(self, folder: Path) -> None:
        self.address = f"unix:path={folder}/bus"
        text = HEAD.format(folder=folder)
        for file in sorted((TOP / "dbus-policy").glob("*.conf")):
            rules = file.read_text().split("<busconfig>", 1)[1].replace("</busconfig>", "")
            for kind, names in (("user", USERS), ("group", GROUPS)):
                for name, other in names.items():
                    rules = rules.replace(f'policy {kind}="{name}"', f'policy {kind}="{other}"')
            assert '="earshot' not in rules, "a user or group without a stand-in"
            text += rules
        (folder / "bus.conf").write_text(text + "</busconfig>")
        self.programs: list[subprocess.Popen[str]] = []
        self.start(["dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--print-address"], "root")
        for name, (user, _) in SERVICES.items():
            self.start([sys.executable, "-c", SERVICE, self.address, name], USERS[user])

    def start(self, words: list[str], user: str, *groups: str) -> subprocess.Popen[str]:
        """Starts a program, and waits for its first line."""
        program = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, user=user, group="nogroup", extra_groups=groups
        )
        self.programs.append(program)
        assert program.stdout is not None
        assert program.stdout.readline()
        return program

    def call(self, calls: list[list[str]], user: str, *groups: str) -> list[list[str]]:
        """Makes the calls as a user, and returns those that the policy permits."""
        result = subprocess.run(
            [sys.executable, "-c", CLIENT, self.address],
            input=json.dumps(calls),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            user=user,
            group="nogroup",
            extra_groups=groups,
        )
        permitted: list[list[str]] = json.loads(result.stdout)
        return permitted

    def stop(self) -> None:
        """Ends all programs."""
        for program in reversed(self.programs):
            program.kill()
            program.wait()


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        machine = Machine(folder)
        yield machine
        machine.stop()


def test_the_page_has_methods_of_each_service() -> None:
    assert {name for name, *_ in METHODS} == set(SERVICES)
    assert len(METHODS) > 80


def test_viewers_may_call_two_methods(machine: Machine) -> None:
    permitted = machine.call(METHODS, "nobody", GROUPS["earshot-view"])
    assert [f"{interface}.{member}" for _, _, interface, member in permitted] == [
        "org.earshot.Manager1.GetMetrics",
        "org.earshot.Verifier1.ListHistory",
    ]


def test_outsiders_may_call_no_method(machine: Machine) -> None:
    assert machine.call(METHODS, "nobody") == []


def test_the_group_may_call_everything_but_what_is_for_another_daemon(machine: Machine) -> None:
    expected = [call for call in METHODS if call[2].rsplit(".", 1)[1] not in INTERNAL]
    assert machine.call(METHODS, "nobody", GROUPS["earshot"]) == expected
    # A member of both groups has the rights of both.
    assert machine.call(METHODS, "nobody", *GROUPS.values()) == expected


@pytest.mark.parametrize("groups", [(), (GROUPS["earshot-view"],)])
def test_programs_outside_the_group_read_of_earshotd_alone(machine: Machine, groups: tuple[str, ...]) -> None:
    calls = [[name, path, *call] for name, (_, path) in SERVICES.items() for call in READING]
    assert machine.call(calls, "nobody", *groups) == [call for call in calls if call[0] == "org.earshot"]
    writing = [["org.earshot", "/org/earshot", "org.freedesktop.DBus.Properties", "Set"]]
    assert machine.call(writing, "nobody", *groups) == []


@pytest.mark.parametrize(("groups", "count"), [((), 1), ((GROUPS["earshot-view"],), 1), ((GROUPS["earshot"],), 4)])
def test_signals_of_the_other_daemons_are_for_the_group(machine: Machine, groups: tuple[str, ...], count: int) -> None:
    # The signal of earshotd is the last, so earlier ones have been delivered or refused when it arrives.
    listener = machine.start([sys.executable, "-c", LISTENER, machine.address, "/org/earshot"], "nobody", *groups)
    calls = [[name, path, "org.earshot.Test1", "Shout"] for name, (_, path) in SERVICES.items()]
    assert machine.call(calls, "root") == calls
    assert listener.stdout is not None
    assert len(listener.stdout.read().split()) == count


@pytest.mark.parametrize("name", ["org.earshot.Presence", "org.earshot.Nostr"])
def test_signals_of_earshotd_reach_the_daemons_that_use_it(machine: Machine, name: str) -> None:
    def count() -> int:
        words = [sys.executable, "-c", COUNTER, machine.address, name]
        return int(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)

    before = count()
    assert count() == before + 1
