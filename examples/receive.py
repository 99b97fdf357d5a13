#!/usr/bin/python3
"""Takes what wallets bring to the kiosk: fetches each credential, stores it, judges it, and only then answers.

    receive.py FOLDER           needs Debian's python3-gi, and the group earshot
"""
import os
import sys

from gi.repository import Gio, GLib

CREDENTIAL = "org.earshot.Credential1"


def is_wanted(text):
    """Yours to write: verify the signature, the issuer, the expiry. earshotd verifies none of it."""
    return "credential" in text


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


def take(bus, path, folder):
    def call(method):
        return bus.call_with_unix_fd_list_sync(
            "org.earshot", path, CREDENTIAL, method, None, None, Gio.DBusCallFlags.NONE, -1, None, None)

    try:
        # A file and not GetCredential's text: it has no limit of size, and may hold any character.
        answer, files = call("OpenCredential")
        with os.fdopen(files.get(answer.unpack()[0]), "rb") as file:
            text = file.read()
        stored = store(folder, path.rsplit("/", 1)[1], text)
        state = bus.call_sync(
            "org.earshot", path, "org.freedesktop.DBus.Properties", "Get", GLib.Variant("(ss)", (CREDENTIAL, "State")),
            None, Gio.DBusCallFlags.NONE, -1, None).unpack()[0]
        if state != "received":
            # With Decision=accept the service has accepted it; or a run of this program did, and the service was restarted.
            return print(state, stored, flush=True)
        wanted = is_wanted(text.decode())
        # The wallet hears this, if it is still there; from then on there is no other copy than yours.
        call("Accept" if wanted else "Reject")
        print("accepted" if wanted else "rejected", stored, flush=True)
    except GLib.Error as error:
        # Somebody else judged it, or it was too old: the next one may do better.
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
    # First listen, then ask for those that wait already, at each start of the service: in this order not one is missed.
    bus.signal_subscribe(
        "org.earshot", "org.earshot.Verifier1", "CredentialReceived", None, None, Gio.DBusSignalFlags.NONE,
        lambda bus, sender, verifier, interface, signal, values: take(bus, values.unpack()[0], folder))
    Gio.bus_watch_name_on_connection(
        bus, "org.earshot", Gio.BusNameWatcherFlags.NONE, lambda bus, name, owner: take_all(bus, folder), None)
    GLib.MainLoop().run()


main(sys.argv[1])
