"""The service as a whole."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from earshot.bus import NAME, ROOT, Connection, Signal, pages
from earshot.credentials import INTERFACE, VERIFIER, Credential, credentials
from earshot.mesh import Mesh
from earshot.nearby import Nearby

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MANAGER = "org.earshot.Manager1"


class Service:
    """The Earshot service on one bus."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.mesh = Mesh(connection)
        self.nearby = Nearby(connection)

    async def state(self) -> dict[str, Any]:
        """Returns the properties of the whole service: `RadioState`, `Services`, …."""
        return await self._connection.properties(ROOT, MANAGER)

    async def metrics(self) -> str:
        """Returns the metrics of the service, in the text format of Prometheus."""
        (text,) = await self._connection.call(ROOT, MANAGER, "GetMetrics")
        return str(text)

    async def start_verifier(self) -> str:
        """Begins to wait for wallets, and returns the text of the QR code."""
        (uri,) = await self._connection.call(VERIFIER, INTERFACE, "Start")
        return str(uri)

    async def connection_uri(self) -> str:
        """Returns the text of the present QR code; empty while no wallet is invited."""
        properties = await self._connection.properties(VERIFIER, INTERFACE)
        return str(properties.get("ConnectionUri", ""))

    async def connection_uris(self) -> AsyncIterator[str]:
        """Yields the text of the QR code, and each later one: a wallet that uses a code makes it invalid.

        An empty text means that no wallet is invited: the verifier is stopped, the radio is not usable, or there is no
        capacity for a credential.
        """
        last: str | None = None

        async def fetch() -> AsyncIterator[str]:
            nonlocal last
            uri = await self.connection_uri()
            if uri != last:
                last = uri
                yield uri

        async for uri in pages(self._connection, _is_of_verifier, fetch):
            yield uri

    def credentials(self) -> AsyncIterator[Credential]:
        """Yields each credential once, with its verdict: those that wait, and then each that is received."""
        return credentials(self._connection)


def _is_of_verifier(signal: Signal) -> bool:
    return signal.path == VERIFIER and signal.member == "PropertiesChanged"


@asynccontextmanager
async def connect(address: str | None = None, name: str = NAME) -> AsyncIterator[Service]:
    """Connects to the system bus, or to the bus at an address. The service need not run yet."""
    connection = await Connection.open(address, name)
    try:
        yield Service(connection)
    finally:
        connection.close()
