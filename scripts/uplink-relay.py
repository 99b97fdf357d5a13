#!/usr/bin/env python3
"""A Nostr relay and a SOCKS 5 proxy on the loopback interface, for demonstrations and tests.

    uplink-relay.py relay PORT CERTIFICATE KEY LOG [PLAIN]
        a relay with TLS, and at the port PLAIN without it; it checks no signatures
    uplink-relay.py proxy PORT LOG [NAMESPACE] NAME=PORT...
        a proxy that knows only these names; it listens in its own network namespace, and connects in that of the file

The logs have one line for each thing that the program sees. Nothing but Python's standard library is used.
"""

import asyncio
import base64
import ctypes
import hashlib
import json
import ssl
import struct
import sys
from pathlib import Path

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
LIMIT = 1 << 20


class Log:
    """A file of lines."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def write(self, line: str) -> None:
        """Adds a line."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class Proxy:
    """A SOCKS 5 proxy (RFC 1928) that wants a user name and a password (RFC 1929)."""

    def __init__(self, log: Log, names: dict[str, int]) -> None:
        self.log = log
        self.names = names

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles a connection."""
        try:
            await self.negotiate(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def negotiate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the handshake, and relays bytes afterwards."""
        version, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        if version != 5 or 2 not in methods:
            writer.write(b"\x05\xff")
            return
        writer.write(b"\x05\x02")
        _, length = await reader.readexactly(2)
        user = (await reader.readexactly(length)).decode()
        await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(b"\x01\x00")
        _, command, _, kind = await reader.readexactly(4)
        if command != 1 or kind != 3:
            self.log.write(f"refused: command {command}, address type {kind}")
            writer.write(b"\x05\x08\x00\x01" + bytes(6))
            return
        host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        (port,) = struct.unpack(">H", await reader.readexactly(2))
        if host not in self.names:
            self.log.write(f"{user} asks for {host}:{port}: unknown")
            writer.write(b"\x05\x04\x00\x01" + bytes(6))
            return
        self.log.write(f"{user} asks for {host}:{port}")
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.names[host])
        writer.write(b"\x05\x00\x00\x01" + bytes(6))
        await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies bytes until one side ends."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


class Client:
    """A client of the relay, and its subscriptions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.subscriptions: dict[str, list[dict]] = {}

    async def greet(self) -> bool:
        """Answers the handshake of WebSocket."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        key = next((value for name, value in fields.items() if name.lower() == "sec-websocket-key"), None)
        if key is None:
            return False
        answer = base64.b64encode(hashlib.sha1((key + GUID).encode(), usedforsecurity=False).digest()).decode()
        self.writer.write(
            (
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Accept: {answer}\r\n\r\n"
            ).encode()
        )
        return True

    async def frame(self) -> tuple[int, bytes]:
        """Reads a frame of a client; one of more than LIMIT bytes ends the connection."""
        first, second = await self.reader.readexactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", await self.reader.readexactly(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", await self.reader.readexactly(8))
        if length > LIMIT:
            raise ConnectionError
        mask = await self.reader.readexactly(4)
        data = await self.reader.readexactly(length)
        return first & 0x0F, bytes(byte ^ mask[index % 4] for index, byte in enumerate(data))

    def send(self, opcode: int, data: bytes) -> None:
        """Sends a frame."""
        head = bytes([0x80 | opcode])
        if len(data) < 126:
            head += bytes([len(data)])
        elif len(data) < 65536:
            head += b"\x7e" + struct.pack(">H", len(data))
        else:
            head += b"\x7f" + struct.pack(">Q", len(data))
        self.writer.write(head + data)

    def tell(self, *values: object) -> None:
        """Sends a message of the protocol."""
        self.send(1, json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode())


def matches(event: dict, query: dict) -> bool:
    """Whether an event matches a filter of a subscription (NIP-01)."""
    for name, wanted in query.items():
        if name == "kinds" and event["kind"] not in wanted:
            return False
        if name == "ids" and event["id"] not in wanted:
            return False
        if name == "authors" and event["pubkey"] not in wanted:
            return False
        if name == "since" and event["created_at"] < wanted:
            return False
        if name == "until" and event["created_at"] > wanted:
            return False
        if name.startswith("#") and not any(tag[0] == name[1:] and tag[1] in wanted for tag in event["tags"]):
            return False
    return True


class Relay:
    """A relay: it stores events, and passes them on."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.events: dict[str, dict] = {}
        self.clients: set[Client] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles a connection."""
        client = Client(reader, writer)
        try:
            if not await client.greet():
                return
            self.clients.add(client)
            while True:
                opcode, data = await client.frame()
                if opcode == 8:
                    client.send(8, data[:2])
                    return
                if opcode == 9:
                    client.send(10, data)
                elif opcode in (1, 2):
                    self.handle(client, json.loads(data))
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            pass
        finally:
            self.clients.discard(client)
            writer.close()

    def handle(self, client: Client, message: list) -> None:
        """Handles a message of a client."""
        match message:
            case ["REQ", name, *queries]:
                client.subscriptions[name] = queries
                wanted = " and ".join(json.dumps(query, sort_keys=True) for query in queries)
                self.log.write(f"somebody subscribes to {wanted}")
                for event in self.events.values():
                    if any(matches(event, query) for query in queries):
                        client.tell("EVENT", name, event)
                client.tell("EOSE", name)
            case ["CLOSE", name]:
                client.subscriptions.pop(name, None)
            case ["EVENT", event]:
                size = len(json.dumps(event, separators=(",", ":")))
                self.log.write(f"somebody publishes kind {event['kind']} for {event['tags']}: {size} bytes")
                self.events[event["id"]] = event
                client.tell("OK", event["id"], True, "")
                for other in self.clients:
                    for name, queries in other.subscriptions.items():
                        if any(matches(event, query) for query in queries):
                            other.tell("EVENT", name, event)


def enter(namespace: str) -> None:
    """Makes this thread a member of a network namespace. Python has os.setns from 3.12 on only."""
    with Path(namespace).open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000):
            raise OSError(ctypes.get_errno(), "setns")


async def main() -> None:
    """Runs until the process is ended."""
    role, port, *rest = sys.argv[1:]
    if role == "relay":
        certificate, key, path, *plain = rest
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        relay = Relay(Log(path))
        server = await asyncio.start_server(relay.serve, "127.0.0.1", int(port), ssl=context)
        for number in plain:
            other = await asyncio.start_server(relay.serve, "127.0.0.1", int(number))
            await other.start_serving()
    else:
        path, *words = rest
        names = {name: int(number) for name, number in (word.split("=") for word in words if "=" in word)}
        server = await asyncio.start_server(Proxy(Log(path), names).serve, "127.0.0.1", int(port))
        # A socket stays in the namespace in which it was made.
        for namespace in (word for word in words if "=" not in word):
            enter(namespace)
    print("listening", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
