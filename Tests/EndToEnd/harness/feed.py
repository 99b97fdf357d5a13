"""The local broadcast channel of a service, as a local program uses it."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dbus_fast import Message

from harness.service import Service, Settings

BROADCAST = "org.earshot.Broadcast1"
PATH = "/org/earshot/broadcast"


def with_feed(settings: Settings, **feed: str) -> Settings:
    """The settings with the broadcast service enabled."""
    return {**settings, "Broadcast": {"Enabled": "yes", **feed}}


@dataclass(frozen=True)
class Line:
    """An entry of `ListMessages`."""

    number: int
    #: Milliseconds since 1970-01-01 UTC.
    time: int
    peer: str
    text: str
    rssi: int


class Feed:
    def __init__(self, service: Service) -> None:
        self.service = service
        #: The received signals with their arguments.
        self.signals: list[tuple[str, list[Any]]] = []
        self._stop = service.bus.on_signal(self._on_signal)

    def close(self) -> None:
        self._stop()

    def _on_signal(self, message: Message) -> None:
        if message.interface == BROADCAST:
            self.signals.append((message.member, message.body))

    async def call(self, method: str, signature: str = "", *arguments: Any) -> Any:
        return await self.service.call(PATH, BROADCAST, method, signature, *arguments)

    async def properties(self) -> dict[str, Any]:
        return await self.service.properties(BROADCAST, PATH)

    async def until(self, state: str, timeout: float = 20) -> dict[str, Any]:
        return await self.service.until(f"the feed is {state}", BROADCAST, PATH, timeout, State=state)

    async def send(self, text: str) -> int:
        return await self.call("Send", "s", text)

    async def lines(self, after: int = 0) -> list[Line]:
        return [Line(*line) for line in await self.call("ListMessages", "tu", after, 0)]

    async def until_heard(self, text: str, timeout: float = 20) -> Line:
        async def test() -> Line | None:
            return next((line for line in await self.lines() if line.text == text), None)

        return await self.service.bus.until(f"{text!r} is heard", test, timeout)

    async def until_signal(self, name: str, *arguments: Any, timeout: float = 20) -> None:
        async def test() -> bool:
            return (name, list(arguments)) in self.signals

        await self.service.bus.until(f"{name} {arguments}", test, timeout)

    async def until_sent(self, number: int, timeout: float = 30) -> None:
        """Waits until a message was broadcast for its 4 s."""

        async def test() -> str | None:
            return next((name for name, body in self.signals if name in ("MessageSent", "MessageFailed") and body[0] == number), None)

        ended = await self.service.bus.until(f"message {number} ends", test, timeout)
        assert ended == "MessageSent", [body for name, body in self.signals if name == "MessageFailed"]
