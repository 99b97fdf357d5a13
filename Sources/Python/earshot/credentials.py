"""Received credentials."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from earshot.bus import ROOT, Connection, EarshotError, Signal, pages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VERIFIER = f"{ROOT}/verifier"
INTERFACE = "org.earshot.Verifier1"
CREDENTIAL = "org.earshot.Credential1"


@dataclass(frozen=True)
class Reason:
    """A reason of the checker: a stable code, and a sentence for people."""

    code: str
    sentence: str


class Credential:
    """A credential that was received, and waits for a verdict or to be fetched."""

    def __init__(self, connection: Connection, path: str, properties: dict[str, Any]) -> None:
        self._connection = connection
        self.path = path
        self.properties = properties

    def __repr__(self) -> str:
        return f"<Credential {self.name} {self.state} {self.verdict}>"

    @property
    def name(self) -> str:
        """The name for the commands of the tool: `credential7`."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def state(self) -> str:
        """`received` before a verdict; `accepted` if the service accepted it by itself."""
        return str(self.properties.get("State", ""))

    @property
    def verdict(self) -> str:
        """The checker's verdict: `valid`, `revoked`, …; empty if credentials are not checked."""
        return str(self.properties.get("Verdict", ""))

    @property
    def reasons(self) -> list[Reason]:
        """The reasons for the checker's verdict."""
        return [Reason(code, sentence) for code, sentence in self.properties.get("VerdictReasons", [])]

    @property
    def issuer(self) -> str:
        """The issuer's name in the trust folder; empty if it is unknown."""
        return str(self.properties.get("Issuer", ""))

    @property
    def size(self) -> int:
        """The size in bytes."""
        return int(self.properties.get("Size", 0))

    async def claims(self) -> dict[str, Any] | None:
        """Returns the claims that the signature covers; None if the signature was not verified."""
        try:
            (text,) = await self._connection.call(self.path, CREDENTIAL, "GetClaims")
        except EarshotError as error:
            if error.code == "NotReady":
                return None
            raise
        claims: dict[str, Any] = json.loads(text)
        return claims

    async def fetch(self) -> bytes:
        """Returns the credential. The service then erases an accepted one, so store it before you return."""
        return await self._connection.read_file(self.path, CREDENTIAL, "OpenCredential")

    async def accept(self) -> bool:
        """Accepts the credential; returns whether the phone was still connected and was notified."""
        return await self._judge("Accept")

    async def reject(self) -> bool:
        """Rejects the credential, which is erased; returns whether the phone was notified."""
        return await self._judge("Reject")

    async def _judge(self, method: str) -> bool:
        await self._connection.call(self.path, CREDENTIAL, method)
        try:
            self.properties = await self._connection.properties(self.path, CREDENTIAL)
        except EarshotError:
            return False  # The object of a judged credential may be gone.
        return self.properties.get("VerdictDelivery") == "sent"


#: Maximum number of credentials that are remembered, many times more than the service stores.
_REMEMBERED = 4096


async def credentials(connection: Connection) -> AsyncIterator[Credential]:
    """Yields each credential once: those that wait, and then each that is received.

    If credentials are checked, one is yielded with its verdict, not before.
    """
    # A path is never used for another credential, so it identifies one.
    seen: dict[str, None] = {}

    async def fetch() -> AsyncIterator[Credential]:
        objects = await connection.objects()
        for path in sorted(objects, key=lambda path: (len(path), path)):
            properties = objects[path].get(CREDENTIAL)
            if properties is None or not path.startswith(f"{VERIFIER}/"):
                continue
            if path in seen or not _waits(properties):
                continue
            seen[path] = None
            if len(seen) > _REMEMBERED:
                del seen[next(iter(seen))]
            yield Credential(connection, path, properties)

    async for credential in pages(connection, _is_news, fetch):
        yield credential


def _waits(properties: dict[str, Any]) -> bool:
    if properties.get("Verdict") == "pending":
        return False
    state = properties.get("State")
    return state == "received" or (state == "accepted" and int(properties.get("ExpiresAt", 0)) > 0)


def _is_news(signal: Signal) -> bool:
    return signal.interface == INTERFACE and signal.member in ("CredentialReceived", "VerdictReceived")
