"""Messages of the local broadcast channel (PBLEC)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from earshot.bus import ROOT, Connection, Signal, numbered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATH = f"{ROOT}/broadcast"
INTERFACE = "org.earshot.Broadcast1"

#: The signal strength if it is unknown.
_UNKNOWN_STRENGTH = 127


@dataclass(frozen=True)
class NearbyMessage:
    """A message in clear and unsigned, from anybody in range: do not trust its text."""

    number: int
    #: Milliseconds since 1970-01-01 UTC.
    time: int
    #: Two words for the peer. They identify nobody.
    peer: str
    text: str
    #: Signal strength in dBm; None if it is unknown.
    strength: int | None


class Nearby:
    """The local broadcast channel of the service."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def messages(self, after: int | None = None) -> AsyncIterator[NearbyMessage]:
        """Yields messages whose number is higher than `after`, oldest first, and then each new one.

        None for `after` yields new messages only.
        """
        async for message in numbered(self._connection, _is_news, self._list, after):
            yield message

    async def send(self, text: str) -> int:
        """Queues a message of at most 24 bytes for broadcast, and returns its number."""
        (number,) = await self._connection.call(PATH, INTERFACE, "Send", "s", text)
        return int(number)

    async def _list(self, after: int) -> AsyncIterator[NearbyMessage]:
        (rows,) = await self._connection.call(PATH, INTERFACE, "ListMessages", "tu", after, 0)
        for row in rows:
            # A later release may add members at the end.
            number, time, peer, text, strength = row[:5]
            yield NearbyMessage(number, time, peer, text, None if strength == _UNKNOWN_STRENGTH else strength)


def _is_news(signal: Signal) -> bool:
    return signal.path == PATH and signal.member == "MessageReceived"
