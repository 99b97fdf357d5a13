"""A client of the social server with the package websockets: scripts/social-clients calls it.

Usage: social-websockets.py CERTIFICATE URL...

For each URL: the handshake, a ping, a flood of pings, the key and a segment in fragments of one octet, half-open
connections, 500 clients that send one octet a second, another path, and a message that is too long.
"""

import asyncio
import socket as socket_kinds
import ssl
import sys

import websockets

KEY = bytes([9]) * 32
HEAD = b"GET /asn HTTP/1.1\r\n"


def context(url, certificate):
    """The TLS context that trusts the server, or None."""
    return ssl.create_default_context(cafile=certificate) if url.startswith("wss:") else None


async def begin(host, port, source):
    """A connection from an address of this machine."""
    _, writer = await asyncio.open_connection(host, port, family=socket_kinds.AF_INET, local_addr=(source, 0))
    return writer


async def code(socket):
    """The close code of the server."""
    try:
        while True:
            await asyncio.wait_for(socket.recv(), 30)
    except websockets.ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None


async def check(url, certificate):
    """Runs all steps, and returns a list of what failed."""
    failures = []
    options = {"ssl": context(url, certificate)} if url.startswith("wss:") else {}

    def expect(is_true, what):
        if not is_true:
            failures.append(what)

    async with websockets.connect(url, **options) as socket:
        await asyncio.wait_for(await socket.ping(), 30)
        # A client that sends pings without end is answered, or at least not closed.
        for _ in range(1000):
            last = await socket.ping()
        await asyncio.wait_for(last, 30)
        # The key is one message in 32 fragments.
        await socket.send(bytes([octet]) for octet in KEY)
        await asyncio.wait_for(await socket.ping(), 30)
        # A segment with a wrong tag, in fragments of one octet: the server understands it, and closes.
        await socket.send(bytes([octet]) for octet in bytes([0, 17]) + bytes([1]) * 17)
        expect(await code(socket) == 1000, "a wrong segment is not answered with the code 1000")
    async with websockets.connect(url, **options) as socket:
        await socket.send(KEY[:31])
        expect(await code(socket) == 1000, "a short key is not answered with the code 1000")
    async with websockets.connect(url, max_size=None, **options) as socket:
        await socket.send(bytes(64 * 1024 + 1))
        expect(await code(socket) == 1009, "a long message is not answered with the code 1009")
    try:
        async with websockets.connect(url.rsplit("/", 1)[0] + "/other", **options):
            failures.append("another path is served")
    except websockets.InvalidStatus as refused:
        expect(refused.response.status_code == 404, "another path is not answered with 404")
    # Connections that only begin, beside one that works.
    host, port = url.split("/")[2].split(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(8)]
    async with websockets.connect(url, **options) as socket:
        await asyncio.wait_for(await socket.ping(), 30)
    for _, writer in silent:
        writer.close()
    # 500 clients of 32 addresses of this machine send one octet a second: others are served meanwhile.
    slow = [await begin(host, int(port), f"127.0.1.{1 + number // 16}") for number in range(500)]
    for octet in HEAD[:6]:
        for writer in slow:
            if not writer.is_closing():
                writer.write(bytes([octet]))
        async with websockets.connect(url, **options) as socket:
            await asyncio.wait_for(await socket.ping(), 30)
        await asyncio.sleep(1)
    for writer in slow:
        writer.close()
    return failures


def main():
    """Prints a line for each URL."""
    certificate, urls = sys.argv[1], sys.argv[2:]
    status = 0
    for url in urls:
        failures = asyncio.run(check(url, certificate))
        print(f"websockets {websockets.__version__}: {url}: {'; '.join(failures) or 'ok'}")
        status = status or (1 if failures else 0)
    sys.exit(status)


if __name__ == "__main__":
    main()
