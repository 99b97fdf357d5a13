"""Messages of the Bitchat mesh."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from earshot.bus import ROOT, Connection, Signal, numbered

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATH = f"{ROOT}/mesh"
INTERFACE = "org.earshot.Mesh1"


@dataclass(frozen=True)
class MeshMessage:
    """A message. Nickname and text come from a peer: do not trust them, and do not print them unfiltered."""

    number: int
    #: Milliseconds since 1970-01-01 UTC, as the sender's clock has them.
    time: int
    #: The peer ID of the other peer; empty for a public message.
    conversation: str
    #: The peer ID of the sender.
    sender: str
    nickname: str
    text: str
    #: `unread`, `seen`, or the delivery state of an own message.
    state: str
    #: `mesh`, or `uplink` for a private message that was sent or received over the uplink.
    way: str = "mesh"

    @property
    def is_private(self) -> bool:
        """Whether the message is for one peer alone."""
        return bool(self.conversation)

    @property
    def is_own(self) -> bool:
        """Whether this node sent the message."""
        return self.state not in ("unread", "seen")


class Mesh:
    """The mesh node of the service."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def last_number(self) -> int:
        """Returns the number of the newest message, 0 if there is none."""
        number = 0
        async for message in self._list(0):
            number = message.number
        return number

    async def messages(self, after: int | None = None) -> AsyncIterator[MeshMessage]:
        """Yields messages whose number is higher than `after`, oldest first, and then each new one.

        None for `after` yields new messages only.
        """
        async for message in numbered(self._connection, _is_news, self._list, after):
            yield message

    async def say(self, text: str) -> int:
        """Sends a public message, and returns its number."""
        (number,) = await self._connection.call(PATH, INTERFACE, "Say", "s", text)
        return int(number)

    async def tell(self, peer: str, text: str) -> int:
        """Sends a private message to a peer, named by its nickname or ID, and returns its number."""
        (number,) = await self._connection.call(PATH, INTERFACE, "Tell", "ss", peer, text)
        return int(number)

    async def mark_read(self, number: int) -> None:
        """Marks a message and the earlier ones of its conversation as seen."""
        await self._connection.call(PATH, INTERFACE, "MarkRead", "u", number)

    async def counters(self) -> dict[str, int]:
        """Returns the counters of the node."""
        properties = await self._connection.properties(PATH, INTERFACE)
        return {name: int(count) for name, count in properties.get("Counters", {}).items()}

    async def _list(self, after: int) -> AsyncIterator[MeshMessage]:
        while True:
            (rows,) = await self._connection.call(PATH, INTERFACE, "ListMessages", "uu", after, 0)
            if not rows or rows[-1][0] <= after:
                return
            for row in rows:
                # A later release may add members at the end.
                yield MeshMessage(*row[: len(fields(MeshMessage))])
            after = rows[-1][0]


def _is_news(signal: Signal) -> bool:
    return signal.path == PATH and signal.member == "MessageReceived"
