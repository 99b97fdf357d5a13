"""A client of the Earshot service, for asyncio.

    import asyncio
    import earshot

    async def main():
        async with earshot.connect() as service:
            async for credential in service.credentials():
                print(credential.name, credential.verdict)
                await credential.accept()

    asyncio.run(main())

It uses dbus-fast (Debian: python3-dbus-fast), because that library is made for asyncio, passes files, and needs no
main loop of GLib beside that of asyncio.
"""

from earshot.bus import EarshotError, ServiceGone
from earshot.credentials import Credential, Reason
from earshot.mesh import Mesh, MeshMessage
from earshot.nearby import Nearby, NearbyMessage
from earshot.service import Service, connect

__all__ = [
    "Credential",
    "EarshotError",
    "Mesh",
    "MeshMessage",
    "Nearby",
    "NearbyMessage",
    "Reason",
    "Service",
    "ServiceGone",
    "connect",
]
