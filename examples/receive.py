#!/usr/bin/python3
"""Takes what wallets bring to the kiosk: fetches each credential, stores it, and answers by the verdict of earshot-check.

    receive.py FOLDER           needs Debian's python3-gi, the group earshot, and Check=yes in earshot.conf
"""
import json
import os
import sys

from gi.repository import Gio, GLib

CREDENTIAL = "org.earshot.Credential1"
stored = {}


def is_wanted(issuer, kind, claims):
    """Yours to write: a credential may be genuine and still not the one that you want."""
    return bool(claims)


def store(folder, name, text):
    """Returns when the disk has it. A name that is there already is another credential's, and is not written over."""
    path, number = os.path.join(folder, name), 1
    while True:
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            break
        except FileExistsError:
            number += 1
            path = os.path.join(folder, f"{name}-{number}")
    with os.fdopen(file, "wb") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    return path


def call(bus, path, method):
    answer, files = bus.call_with_unix_fd_list_sync(
        "org.earshot", path, CREDENTIAL, method, None, None, Gio.DBusCallFlags.NONE, -1, None, None)
    return answer.unpack(), files


def take(bus, path, folder):
    try:
        # A file and not GetCredential's text: it has no limit of size, and may hold any character.
        (index,), files = call(bus, path, "OpenCredential")
        with os.fdopen(files.get(index), "rb") as file:
            stored[path] = store(folder, path.rsplit("/", 1)[1], file.read())
        judge(bus, path)
    except GLib.Error as error:
        # Somebody else judged it, or it was too old: the next one may do better.
        print(f"{path}: {error.message}", file=sys.stderr, flush=True)


def judge(bus, path):
    """Answers the wallet if there is a verdict; VerdictReceived comes when there is one."""
    if path not in stored:
        return
    try:
        properties = bus.call_sync(
            "org.earshot", path, "org.freedesktop.DBus.Properties", "GetAll", GLib.Variant("(s)", (CREDENTIAL,)),
            None, Gio.DBusCallFlags.NONE, -1, None).unpack()[0]
        verdict, state = properties["Verdict"], properties["State"]
        if state != "received":
            # With Decision=accept or check the service has answered; or a run of this program did, before a restart.
            return print(state, stored.pop(path), flush=True)
        if verdict in ("", "pending", "undecided"):
            # Not checked (Check=no), not checked yet, or a person has to judge it.
            return print(verdict or "not checked", stored[path], flush=True)
        wanted = False
        if verdict == "valid":
            claims = json.loads(call(bus, path, "GetClaims")[0][0])
            wanted = is_wanted(properties["Issuer"], properties["CredentialType"], claims)
        # The wallet hears this, if it is still there; from then on there is no other copy than yours.
        call(bus, path, "Accept" if wanted else "Reject")
        print("accepted" if wanted else "rejected", verdict, stored.pop(path), flush=True)
    except GLib.Error as error:
        print(f"{path}: {error.message}", file=sys.stderr, flush=True)


def take_all(bus, folder):
    objects = bus.call_sync(
        "org.earshot", "/org/earshot", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", None, None,
        Gio.DBusCallFlags.NONE, -1, None).unpack()[0]
    for path, interfaces in objects.items():
        properties = interfaces.get(CREDENTIAL, {})
        if properties.get("Direction") == "incoming" and properties.get("ExpiresAt"):
            take(bus, path, folder)
    print("listening", flush=True)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    bus = Gio.bus_get_sync(Gio.BusType.SYSTEM, None)

    def on(signal, act):
        bus.signal_subscribe(
            "org.earshot", "org.earshot.Verifier1", signal, None, None, Gio.DBusSignalFlags.NONE,
            lambda bus, sender, verifier, interface, signal, values: act(values.unpack()[0]))

    # First listen, then ask for those that wait already, at each start of the service: in this order not one is missed.
    on("CredentialReceived", lambda path: take(bus, path, folder))
    on("VerdictReceived", lambda path: judge(bus, path))
    Gio.bus_watch_name_on_connection(
        bus, "org.earshot", Gio.BusNameWatcherFlags.NONE, lambda bus, name, owner: take_all(bus, folder), None)
    GLib.MainLoop().run()


main(sys.argv[1])
