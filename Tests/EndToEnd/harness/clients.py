"""Independent clients of Bitchat, as published on PyPI, each a process with a home directory and an adapter of its own."""
from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from harness.limits import limit

T = TypeVar("T")
OURS = Path(__file__).parents[1] / "clients"
#: Maximum number of starts of a client until it has connected to the node, and the seconds for each.
STARTS, MEETING = 5, 75


class Client(ABC):
    #: Name of the distribution.
    package: str

    def __init__(self, adapter: int, nickname: str) -> None:
        self.adapter = adapter
        self.nickname = nickname
        self.home = Path(f"/run/e2e-client-{self.package}")
        self._process: asyncio.subprocess.Process | None = None
        self._changed = asyncio.Event()
        self._reading: list[asyncio.Task[None]] = []
        #: The end of the unexpected output.
        self.complaints: list[str] = []

    @abstractmethod
    def words(self) -> list[str]:
        """The command line for Python."""

    def on_line(self, line: str) -> None:
        """Handles a line of output."""

    async def __aenter__(self) -> Client:
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        await self._start()
        return self

    async def _start(self) -> None:
        theirs = Path(os.environ["E2E_CLIENTS"])
        path = [OURS, theirs / self.package, theirs / "common", theirs.parent]
        environment = {
            **os.environ, "HOME": str(self.home), "PYTHONPATH": ":".join(map(str, path)), "CLIENT_ADAPTER": f"hci{self.adapter}",
            "PYTHONUNBUFFERED": "1", "TERM": "dumb",
        }
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self.words(), stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=self.home
        )
        self._reading = [asyncio.ensure_future(self._read_lines()), asyncio.ensure_future(self._read_complaints())]

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None:
            error.add_note(f"{self.package}: {self.state()}")
        await self._end()

    async def _end(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            async with asyncio.timeout(limit(10)):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        for task in self._reading:
            task.cancel()

    async def _read_lines(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        async for line in self._process.stdout:
            self.on_line(line.decode(errors="replace").rstrip())
            self._changed.set()

    async def _read_complaints(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        async for line in self._process.stderr:
            self.complaints = [*self.complaints[-20:], line.decode(errors="replace").rstrip()]

    def state(self) -> object:
        """The state of the client, for the error of a wait without success."""
        return self.complaints[-5:]

    async def until_met(self, what: str, test: Callable[[], T]) -> T:
        """Waits for the connection. Some of bleak's attempts end after two seconds, and after each one the clients wait longer. A
        client that does not connect in time is restarted in its home, and then connects at once."""
        for _ in range(STARTS - 1):
            with suppress(TimeoutError):
                return await self.until(what, test, MEETING)
            await self._end()
            await self._start()
        return await self.until(what, test, MEETING)

    async def until(self, what: str, test: Callable[[], T], timeout: float = 120) -> T:
        """Waits for an effect in the client. The error names its last event."""
        end = time.monotonic() + limit(timeout)
        while not (found := test()):
            left = end - time.monotonic()
            if left <= 0 or (self._process is not None and self._process.returncode is not None):
                raise TimeoutError(f"{self.package}: {what}: not within {limit(timeout):.0f} s; {self.state()}")
            self._changed.clear()
            # Some effects are files, whose changes cause no event.
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, 0.5)):
                    await self._changed.wait()
        return found


class DrivenClient(Client):
    """A client that is driven by `clients/drive.py`."""

    def __init__(self, adapter: int, nickname: str) -> None:
        super().__init__(adapter, nickname)
        self.events: list[dict[str, Any]] = []

    def words(self) -> list[str]:
        return [str(OURS / "drive.py"), self.package, self.nickname]

    async def _start(self) -> None:
        self.events = []
        await super()._start()

    def on_line(self, line: str) -> None:
        with suppress(json.JSONDecodeError):
            self.events.append(json.loads(line))

    def state(self) -> object:
        return self.events[-6:], self.complaints[-5:]

    async def order(self, **command: Any) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()

    async def does(self, **command: Any) -> None:
        """Repeats a command until the client has a link for it."""
        what = next(iter(command))
        while True:
            before = len(self._done(what))
            await self.order(**command)
            done = await self.until(f"has answered {what!r}", lambda: self._done(what)[before:], 60)
            if done[-1]:
                return
            await asyncio.sleep(1)

    def _done(self, what: str) -> list[bool]:
        return [event["ok"] for event in self.events if event.get("done") == what]

    # Events.

    @property
    def id(self) -> str:
        return next((event["self"] for event in self.events if "self" in event), "")

    def has_status(self, code: str) -> bool:
        return any(event.get("status") == code for event in self.events)

    def knows(self, peer: str) -> bool:
        return any(event.get("peer") == peer for event in self.events)

    def heard(self, text: str, *, private: bool = False) -> bool:
        return any(event.get("heard") == text and event["private"] is private for event in self.events)

    @property
    def texts(self) -> list[str]:
        return [event["heard"] for event in self.events if "heard" in event]


class PythonBitchatClient(DrivenClient):
    package = "python-bitchat-client"


class BitchatCLI(DrivenClient):
    package = "bitchat-cli"

    @property
    def downloads(self) -> Path:
        return self.home / ".bitchat" / "downloads"

    @property
    def cuts(self) -> int:
        """Number of its links that have ended."""
        return sum(event.get("status") == "disconnected" for event in self.events)


class Bitchat4Agents(Client):
    """The client Bitchat4Agents, which runs headless and takes commands on a socket."""

    package = "bitchat4agents"

    def words(self) -> list[str]:
        return ["-m", "bitchat_cli.cli", "daemon-run", "--nickname", self.nickname]

    @property
    def folder(self) -> Path:
        return self.home / ".config" / "bitchat"

    def state(self) -> object:
        # Without this it would search for relays on the Internet without end.
        lines = [line for line in self.log.splitlines() if "nostr" not in line]
        return lines[-12:] or self.complaints[-5:]

    async def order(self, command: str, timeout: float = 60, **arguments: Any) -> dict[str, Any]:
        """Sends a command and returns the answer; a refusal is an error."""
        async with asyncio.timeout(limit(timeout)):
            reader, writer = await asyncio.open_unix_connection(self.folder / "daemon.sock")
            writer.write(json.dumps({"command": command, **arguments}).encode() + b"\n")
            await writer.drain()
            answer = json.loads(await reader.readline())
            writer.close()
        if not answer.get("ok"):
            raise RuntimeError(f"{command}: {answer.get('error')}")
        return answer

    @property
    def log(self) -> str:
        file = self.folder / "daemon.log"
        return file.read_text() if file.exists() else ""

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records in its list of messages."""
        file = self.folder / "messages.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def peers(self) -> str:
        file = self.folder / "peers.json"
        return file.read_text() if file.exists() else ""

    @property
    def id(self) -> str:
        """The peer ID: a hash of the public key that belongs to the private key in its file."""
        import hashlib

        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        state = json.loads((self.folder / "state.json").read_text())
        key = X25519PrivateKey.from_private_bytes(bytes.fromhex(state["noise_private_key"]))
        return hashlib.sha256(key.public_key().public_bytes_raw()).hexdigest()[:16]

    def heard(self, text: str, scope: str = "public") -> bool:
        return any(each["direction"] == "inbound" and each["content"] == text and each["scope"] == scope for each in self.records)

    def file(self, name: str) -> bytes | None:
        """The content of a received file. The client changes unusual names."""
        saved = [each["content"] for each in self.records if each["direction"] == "inbound" and each.get("attachment_name") == name]
        return Path(saved[0]).read_bytes() if saved else None

    def receipts(self, message_id: str) -> list[str]:
        found = [each for each in self.records if each["message_kind"] == "receipt" and each["message_id"] == message_id]
        return [each["delivery_state"] for each in found]
