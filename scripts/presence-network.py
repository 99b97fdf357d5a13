#!/usr/bin/env python3
"""Private presence in network namespaces, against 200 peers, a network without unicast, and openssl.

Usage: unshare -n scripts/presence-network.py [BIN]

BIN is the folder of the programs (.build/debug). The script needs root, ip, openssl and dbus-daemon. It prints a line
for each step, and exits with 1 if a step failed. The peers live in a second namespace, at the other end of a virtual
cable. Beacons, keys and identities are computed here, without code of Earshot. Facts: thali.md sections 1, 2, 3 and 7.
"""

import base64
import contextlib
import ctypes
import hashlib
import hmac
import json
import os
import re
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BIN = Path(sys.argv[1] if len(sys.argv) > 1 else ".build/debug").resolve()
PATIENCE = 60
GROUP = ("239.255.255.250", 1900)
SERVICE = "http://www.thaliproject.org/ssdp"
HERE, THERE = "10.77.0.1", "10.77.1.{}"
PEERS = 200
CIPHER = "DHE-PSK-AES256-GCM-SHA384"

# --- secp256k1, HKDF and AES-128-GCM with a nonce of 16 bytes

P = 2**256 - 2**32 - 977
N = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
G = (
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8,
)
PREFIX = bytes.fromhex("3056301006072a8648ce3d020106052b8104000a034200")


def add(first, second):
    """The sum of two points; None is the neutral one."""
    if first is None or second is None:
        return first or second
    (x1, y1), (x2, y2) = first, second
    if x1 == x2 and (y1 + y2) % P == 0:
        return None
    slope = 3 * x1 * x1 * pow(2 * y1, -1, P) if first == second else (y2 - y1) * pow(x2 - x1, -1, P)
    x = (slope * slope - x1 - x2) % P
    return x, (slope * (x1 - x) - y1) % P


def multiply(number, point):
    """The point, added to itself so many times."""
    total = None
    while number:
        if number & 1:
            total = add(total, point)
        point = add(point, point)
        number >>= 1
    return total


def encode(point):
    """A public key as SubjectPublicKeyInfo: 88 bytes."""
    return PREFIX + b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def decode(info):
    """The point of a public key of 88 bytes."""
    return int.from_bytes(info[24:56], "big"), int.from_bytes(info[56:88], "big")


def shared(private, point):
    """The X coordinate of ECDH: 32 bytes."""
    return multiply(private, point)[0].to_bytes(32, "big")


def hkdf(secret, salt, length):
    """HKDF-SHA256 with an empty info, at most 32 bytes."""
    key = hmac.digest(salt, secret, "sha256")
    return hmac.digest(key, b"\x01", "sha256")[:length]


def aes(key, block):
    """AES-128 of one block, by openssl."""
    command = ["openssl", "enc", "-aes-128-ecb", "-K", key.hex(), "-nopad"]
    return subprocess.run(command, input=block, capture_output=True, check=True).stdout


def ghash(key, data):
    """GHASH of whole blocks."""
    total = 0
    for index in range(0, len(data), 16):
        total ^= int.from_bytes(data[index : index + 16], "big")
        product, factor = 0, key
        for bit in range(127, -1, -1):
            if total >> bit & 1:
                product ^= factor
            factor = factor >> 1 ^ (0xE1 << 120 if factor & 1 else 0)
        total = product
    return total.to_bytes(16, "big")


def seal(key, nonce, block):
    """AES-128-GCM of one block with a nonce of 16 bytes: 16 bytes and the tag."""
    hash_key = int.from_bytes(aes(key, bytes(16)), "big")
    start = ghash(hash_key, nonce + bytes(8) + struct.pack(">Q", 128))
    counter = start[:12] + struct.pack(">I", (int.from_bytes(start[12:], "big") + 1) % 2**32)
    text = bytes(a ^ b for a, b in zip(block, aes(key, counter), strict=True))
    digest = ghash(hash_key, text + bytes(8) + struct.pack(">Q", 128))
    return text + bytes(a ^ b for a, b in zip(digest, aes(key, start), strict=True))


class Key:
    """A long-term key."""

    def __init__(self):
        """Makes a new key."""
        self.private = int.from_bytes(os.urandom(32), "big") % (N - 1) + 1
        self.point = multiply(self.private, G)

    @property
    def text(self):
        """The public key as earshot presence add takes it."""
        return base64.urlsafe_b64encode(encode(self.point)).decode().rstrip("=")

    def announce(self, recipient):
        """An announcement for one peer, with the TLS identity and key of this peer."""
        ephemeral = Key()
        expiration = struct.pack(">Q", int(time.time() * 1000) + 3_600_000 + os.urandom(1)[0])
        material = hkdf(shared(ephemeral.private, recipient), expiration, 32)
        secret = shared(self.private, recipient)
        flag = seal(material[16:], material[:16], hashlib.sha256(encode(self.point)).digest()[:16])
        code = hmac.digest(hkdf(secret, expiration, 32), expiration, "sha256")[:16]
        announcement = encode(ephemeral.point) + expiration + flag + code
        return announcement, *identity(announcement, secret)


def identity(announcement, secret):
    """The TLS identity of an announcement with one beacon, 192 characters, and its key."""
    text = base64.b64encode(announcement[:144])
    return text.decode(), hkdf(secret, text, 16).hex()


# --- Steps, processes and the two namespaces

failures = []
processes = []


def step(is_true, what):
    """Reports a step."""
    print(("ok      " if is_true else "FAILED  ") + what, flush=True)
    if not is_true:
        failures.append(what)


def until(condition, seconds=PATIENCE):
    """Waits for a condition, and returns whether it came true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def run(*command, **options):
    """Runs a command, which must succeed."""
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def serve(*command, **options):
    """Starts a process that ends with this script."""
    process = subprocess.Popen(command, **options)
    processes.append(process)
    return process


@contextlib.contextmanager
def inside(process):
    """Makes this thread a member of another process's network namespace meanwhile."""
    with Path("/proc/thread-self/ns/net").open() as own, Path(f"/proc/{process.pid}/ns/net").open() as other:
        enter(other)
        try:
            yield
        finally:
            enter(own)


def enter(namespace):
    """Makes this thread a member of a network namespace. Python has os.setns from 3.12 on only."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")


class Service:
    """One earshot-presenced, and the tool for it."""

    def __init__(self, name, folder, bus):
        """Starts the service and waits until it is ready."""
        self.name, self.folder, self.bus = f"org.earshot.Presence.{name}", folder, bus
        configuration = f"{folder}/{name}.conf"
        Path(configuration).write_text(
            f"[Presence]\nInterfaces=here\nForeground=yes\nBluetooth=no\n[Store]\nDirectory={folder}/{name}\n"
        )
        self.log = Path(f"{folder}/{name}.log").open("w")  # noqa: SIM115
        words = ["--bus", bus, "--bus-name", self.name, "--config", configuration]
        self.process = serve(f"{BIN}/earshot-presenced", *words, stdout=self.log, stderr=self.log)
        step(until(self.is_ready), f"{name}: the service is ready")

    def command(self, *words):
        """The tool as a command line."""
        return [f"{BIN}/earshot", "--bus", self.bus, "--bus-name", self.name, "presence", *words]

    def tool(self, *words):
        """Runs the tool."""
        return run(*self.command(*words))

    def is_ready(self):
        """Whether the service answers."""
        with contextlib.suppress(subprocess.CalledProcessError, json.JSONDecodeError):
            return json.loads(self.tool("show", "--json"))["state"] == "ready"
        return False

    def counter(self, name):
        """A counter; 0 if it is not shown."""
        found = re.search(rf'"{name}": *([0-9]+)', self.tool("show", "--json"))
        return int(found[1]) if found else 0

    def sees(self, name):
        """Whether a known peer is nearby."""
        return re.search(rf'"name": *"{name}",\s*"nearby": *true', self.tool("peers", "--json")) is not None

    def stop(self):
        """Ends the service."""
        self.process.terminate()
        self.process.wait()


def message(address, kind, name, port=5000):
    """A datagram of SSDP."""
    location = f"LOCATION: http://{address}:{port}/NotificationBeacons\r\n" if kind == "ssdp:alive" else ""
    text = (
        f"NOTIFY * HTTP/1.1\r\nHOST: {GROUP[0]}:{GROUP[1]}\r\nNT: {SERVICE}\r\nNTS: {kind}\r\nUSN: {name}\r\n"
        f"CACHE-CONTROL: max-age=60\r\n{location}\r\n"
    )
    return text.encode()


class Multicast:
    """The multicast sockets of the peers."""

    def __init__(self):
        """Joins the group."""
        self.receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.bind(GROUP)
        member = socket.inet_aton(GROUP[0]) + socket.inet_aton(THERE.format(1))
        self.receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)

    @staticmethod
    def send(address, datagram):
        """Sends a multicast from an address."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((address, 0))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
            sender.sendto(datagram, GROUP)

    def receive(self, seconds, kind=b"ssdp:alive"):
        """The datagrams of a kind that the service sends in a time."""
        found, deadline = [], time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self.receiver], [], [], left)[0]:
                break
            datagram, source = self.receiver.recvfrom(2048)
            if source[0] == HERE and kind in datagram:
                found.append(datagram.decode())
        return found


def answer(connection, bodies, backend):
    """Serves beacons over HTTP, and passes a connection that begins with TLS to a backend."""
    with connection:
        connection.settimeout(PATIENCE)
        if connection.recv(1, socket.MSG_PEEK) == b"\x16":
            return pipe(connection, backend)
        connection.recv(2048)
        body = bodies[connection.getsockname()[0]]
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: no-cache\r\n"
        connection.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    return None


def pipe(first, backend):
    """Passes the bytes of a connection to another one, and back, until one of them ends."""
    with socket.create_connection(backend, PATIENCE) as second:
        while True:
            for source in select.select([first, second], [], [], PATIENCE)[0] or [None]:
                data = source.recv(65536) if source else b""
                if not data:
                    return
                (second if source is first else first).sendall(data)


def listen(bodies, backend):
    """Begins to serve the beacons of all peers."""
    listener = socket.create_server(("", 5000), backlog=256)

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection, bodies, backend), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def strangers(count):
    """So many announcements for others, whose ephemeral keys are on the curve."""
    point = multiply(int.from_bytes(os.urandom(32), "big") % N, G)
    for _ in range(count):
        point = add(point, G)
        yield encode(point) + struct.pack(">Q", int(time.time() * 1000) + 3_600_000) + os.urandom(48)


def fetch(address, port):
    """The beacons of the service."""
    with socket.create_connection((address, port), PATIENCE) as connection:
        connection.sendall(f"GET /NotificationBeacons HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        response = b""
        while data := connection.recv(65536):
            response += data
    return response.partition(b"\r\n\r\n")[2]


def s_client(target, name, key, *words, line=b""):
    """What openssl s_client writes: standard output and errors."""
    command = ["openssl", "s_client", "-connect", target, "-psk_identity", name, "-psk", key, *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        if line:
            process.stdin.write(line)
            process.stdin.flush()
        deadline, output = time.monotonic() + PATIENCE, b""
        while select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
            data = os.read(process.stdout.fileno(), 65536)
            output += data
            if not data or (line and line in output):
                break
        process.kill()
    return output


# --- The demonstrations


def many_peers(service, ben, multicast, bodies):
    """200 peers announce themselves at once, and one of them is known."""
    service.tool("add", "ben", ben.text)
    own = decode(base64.urlsafe_b64decode(service.tool("key").strip() + "=="))
    bodies.update({THERE.format(n): body for n, body in enumerate(strangers(PEERS), start=1)})
    announcement, name, key = ben.announce(own)
    bodies[THERE.format(77)] = announcement
    for number in range(1, PEERS + 1):
        usn = f"urn:uuid:00000000-0000-4000-8000-{number:012}"
        multicast.send(THERE.format(number), message(THERE.format(number), "ssdp:alive", usn))
        # More than 50 new announcements in a second would stop discovery.
        time.sleep(0.03)
    step(until(lambda: service.sees("ben")), "200 peers: the known one is nearby")
    judged = until(lambda: service.counter("NotForUs") == PEERS - 1)
    step(judged, f"200 peers: {service.counter('NotForUs')} announcements were judged as not for us")
    step(service.counter("DiscoveryPauses") == 0, "200 peers: discovery was not paused")
    # Nobody can prove who sent a datagram.
    address, usn = THERE.format(77), f"urn:uuid:00000000-0000-4000-8000-{77:012}"
    multicast.send(address, message(address, "ssdp:byebye", usn))
    step(until(lambda: not service.sees("ben")), "byebye: the known peer is not nearby any more")
    multicast.send(address, message(address, "ssdp:alive", usn))
    step(until(lambda: service.sees("ben"), 10), "byebye: the known peer is nearby again with its next datagram")
    return own, name, key


def openssl_server(service, name, key, backend):
    """The service is the TLS client of openssl s_server."""
    step(len(name) == 192, "s_server: the identity has 192 characters")
    server = serve(
        *("openssl", "s_server", "-accept", f"{backend[0]}:{backend[1]}", "-psk", key, "-nocert", "-tls1_2"),
        *("-cipher", CIPHER, "-quiet"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    time.sleep(0.5)
    client = serve(*service.command("connect", "ben", "default"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    client.stdin.write(b"from earshot\n")
    client.stdin.flush()
    line = server.stdout.readline() if select.select([server.stdout], [], [], PATIENCE)[0] else b""
    step(b"from earshot" in line, "s_server: a line from the service arrives")
    server.stdin.write(b"from openssl\n")
    server.stdin.flush()
    line = client.stdout.readline() if select.select([client.stdout], [], [], PATIENCE)[0] else b""
    step(line == b"from openssl\n", "s_server: a line to the service arrives")
    for process in (client, server):
        process.kill()


def openssl_client(service, ben, own, location):
    """Openssl s_client is the TLS client of the service; then it makes one mistake at a time."""
    echo = socket.create_server(("127.0.0.1", 0))

    def serve_echo():
        while True:
            connection, _ = echo.accept()
            with connection, contextlib.suppress(OSError):
                while data := connection.recv(4096):
                    connection.sendall(data)

    threading.Thread(target=serve_echo, daemon=True).start()
    port = echo.getsockname()[1]
    serve(*service.command("serve", "default", f"127.0.0.1:{port}"), stdout=subprocess.DEVNULL)
    step(until(lambda: '"default"' in service.tool("show", "--json")), "s_client: the service default is offered")
    with location() as (address, port):
        announcement = fetch(address, port)
        step(len(announcement) == 144, "s_client: the beacons are fetched")
        name, key = identity(announcement, shared(ben.private, own))
        target, strong = f"{address}:{port}", ("-tls1_2", "-cipher", CIPHER)
        output = s_client(target, name, key, *strong, "-quiet", line=b"from openssl\n")
        step(b"from openssl" in output, "s_client: the program of the service answers")
        for words, number, what in [
            ((name, key, "-tls1_2", "-cipher", "PSK-AES256-CBC-SHA"), 40, "another suite"),
            ((name, key, "-tls1_1", "-cipher", "PSK-AES256-CBC-SHA:@SECLEVEL=0"), 70, "TLS 1.1"),
            (("A" * 192, key, *strong), 115, "an unknown identity"),
            ((name, "00" * 16, *strong), 20, "a wrong key"),
        ]:
            # The service accepts 5 handshakes in a second of one address.
            time.sleep(0.3)
            output = s_client(target, *words)
            found = re.findall(rb"SSL alert number ([0-9]+)", output)
            step(found == [str(number).encode()], f"s_client: {what} gets alert {number}")


def no_unicast(service, multicast, there):
    """The network passes multicast and not unicast."""
    found = multicast.receive(2)
    step(len(found) >= 2, "without unicast: the service announces itself at first")
    port = int(re.findall(r"(?i)location: http://[0-9.]+:([0-9]+)", "".join(found))[-1])
    # As in a network whose access point separates its clients: all unicast goes to nobody.
    for number in range(1, 5):
        run("ip", "neigh", "replace", THERE.format(number), "lladdr", "02:00:00:00:00:99", "dev", "here")
    with inside(there):
        run("ip", "neigh", "replace", HERE, "lladdr", "02:00:00:00:00:98", "dev", "there")
        for number in range(1, 5):
            usn = f"urn:uuid:10000000-0000-4000-8000-{number:012}"
            multicast.send(THERE.format(number), message(THERE.format(number), "ssdp:alive", usn))
        step(until(lambda: service.counter("UnicastPauses") == 1), "without unicast: the service notices it")
        multicast.receive(1)
        step(multicast.receive(5) == [], "without unicast: the announcements stop")
    for number in range(1, 5):
        run("ip", "neigh", "del", THERE.format(number), "dev", "here")
    with inside(there):
        run("ip", "neigh", "del", HERE, "dev", "there")
        step(len(fetch(HERE, port)) == 144, "without unicast: a peer that connects in the pause gets the beacons")
        step(len(multicast.receive(3)) >= 2, "without unicast: the announcements go on after it")


def main():
    """Builds the two namespaces, and runs all demonstrations."""
    folder = tempfile.mkdtemp(prefix="presence-")
    there = serve("unshare", "-n", "sleep", "infinity")
    try:
        own = Path("/proc/self/ns/net").readlink()
        if not until(lambda: Path(f"/proc/{there.pid}/ns/net").readlink() != own):
            raise SystemExit("The second namespace cannot be made.")
        run("ip", "link", "add", "here", "type", "veth", "peer", "name", "there")
        run("ip", "link", "set", "there", "netns", str(there.pid))
        for words in (["addr", "add", f"{HERE}/16", "dev", "here"], ["link", "set", "lo", "up"]):
            run("ip", *words)
        run("ip", "link", "set", "here", "up")
        with inside(there):
            addresses = "".join(f"addr add {THERE.format(n)}/16 dev there\n" for n in range(1, PEERS + 1))
            run("ip", "-batch", "-", input=f"link set lo up\n{addresses}link set there up\n")
        demonstrate(folder, there)
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
        if failures:
            for name in sorted(os.listdir(folder)):
                if name.endswith(".log"):
                    print(f"--- {name}\n{Path(folder, name).read_text()[-2000:]}")
        shutil.rmtree(folder)
    print(f"{len(failures)} steps failed.")
    raise SystemExit(1 if failures else 0)


def demonstrate(folder, there):
    """Runs the demonstrations with a service each."""
    socket_path = f"{folder}/bus"
    configuration = (
        f"<busconfig><type>session</type><listen>unix:path={socket_path}</listen><policy context='default'>"
        "<allow user='*'/><allow own='*'/><allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/>"
        "</policy></busconfig>"
    )
    Path(f"{folder}/bus.conf").write_text(configuration)
    serve("dbus-daemon", f"--config-file={folder}/bus.conf", "--nofork", "--nopidfile")
    until(lambda: Path(socket_path).exists())
    bus, ben, bodies, backend = f"unix:path={socket_path}", Key(), {}, ("127.0.0.1", 4433)
    with inside(there):
        multicast = Multicast()
        listen(bodies, backend)
    service = Service("anna", folder, bus)
    with inside(there):
        own, name, key = many_peers(service, ben, multicast, bodies)
        openssl_server(service, name, key, backend)
    service.tool("announce", "ben")

    @contextlib.contextmanager
    def location():
        found = re.search(r"(?i)location: http://([0-9.]+):([0-9]+)", "".join(multicast.receive(5)))
        with inside(there):
            yield found[1], int(found[2])

    openssl_client(service, ben, own, location)
    service.stop()
    # Another service: a fetch that succeeded within 5 min shows that unicast works.
    service = Service("carl", folder, bus)
    service.tool("add", "ben", ben.text)
    service.tool("announce", "ben")
    no_unicast(service, multicast, there)


if __name__ == "__main__":
    main()
