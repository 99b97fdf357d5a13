#!/usr/bin/python3
"""Fetches and stores each credential that the kiosk receives, and accepts or rejects it by the verdict of earshot-check.

    receive.py FOLDER           needs Debian's python3-gi, the group earshot, and Check=yes in earshot.conf
"""
import json
import os
import sys

from gi.repository import Gio, GLib

CREDENTIAL = "org.earshot.Credential1"
stored = {}


def is_wanted(issuer, kind, claims):
    """Replace this function: a credential may be genuine and still not of the kind that you want."""
    return bool(claims)


def store(folder, name, text):
    """Writes a new file, and returns when it is on the disk. A file that exists belongs to another credential, and stays."""
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
        # OpenCredential returns a file: unlike GetCredential's text, it has no size limit and may contain any character.
        (index,), files = call(bus, path, "OpenCredential")
        with os.fdopen(files.get(index), "rb") as file:
            stored[path] = store(folder, path.rsplit("/", 1)[1], file.read())
        judge(bus, path)
    except GLib.Error as error:
        # Another program judged it, or it expired. The next credential is not affected.
        print(f"{path}: {error.message}", file=sys.stderr, flush=True)


def judge(bus, path):
    """Accepts or rejects a stored credential if it has a verdict; otherwise VerdictReceived announces the verdict later."""
    if path not in stored:
        return
    try:
        properties = bus.call_sync(
            "org.earshot", path, "org.freedesktop.DBus.Properties", "GetAll", GLib.Variant("(s)", (CREDENTIAL,)),
            None, Gio.DBusCallFlags.NONE, -1, None).unpack()[0]
        verdict, state = properties["Verdict"], properties["State"]
        if state != "received":
            # The service has answered (Decision=accept or check), or an earlier run of this program has.
            return print(state, stored.pop(path), flush=True)
        if verdict in ("", "pending", "undecided"):
            # Not checked (Check=no), not checked yet, or undecided: a person has to judge it.
            return print(verdict or "not checked", stored[path], flush=True)
        wanted = False
        if verdict == "valid":
            claims = json.loads(call(bus, path, "GetClaims")[0][0])
            wanted = is_wanted(properties["Issuer"], properties["CredentialType"], claims)
        # The wallet is notified if it is still connected. From now on, the stored file is the only copy.
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

    # Subscribe first, then list the credentials that already wait, at each start of the service: so none is missed.
    on("CredentialReceived", lambda path: take(bus, path, folder))
    on("VerdictReceived", lambda path: judge(bus, path))
    Gio.bus_watch_name_on_connection(
        bus, "org.earshot", Gio.BusNameWatcherFlags.NONE, lambda bus, name, owner: take_all(bus, folder), None)
    GLib.MainLoop().run()


main(sys.argv[1])
