#!/usr/bin/python3
"""A kiosk: shows the QR code, stores each credential, and accepts those that are valid and of a trusted issuer.

kiosk.py FOLDER             needs python3-earshot, the group earshot, and Check=yes in earshot.conf
"""

import asyncio
import os
import sys
from pathlib import Path

import earshot


def store(path: Path, content: bytes) -> None:
    """Writes a file that only its owner may read, and returns when it is on the disk."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


async def handle(credential: earshot.Credential, folder: Path) -> None:
    """Judges one credential. It is stored before it is accepted, because the service then erases it."""
    claims = await credential.claims()
    if credential.verdict != "valid" or not claims:
        codes = ", ".join(reason.code for reason in credential.reasons)
        print(f"{credential.name}: {credential.verdict} ({codes})", flush=True)
        if credential.state == "received":
            await credential.reject()
        return
    store(folder / credential.name, await credential.fetch())
    notified = credential.state != "received" or await credential.accept()
    print(f"{credential.name}: from {credential.issuer}" + ("" if notified else ", the phone had left"), flush=True)


async def main(folder: Path) -> None:
    """Serves wallets until it is interrupted."""
    async with earshot.connect() as service:
        print(await service.start_verifier(), flush=True)
        async for credential in service.credentials():
            try:
                await handle(credential, folder)
            except earshot.EarshotError as error:
                # Another program judged it, or it expired. The next credential is not affected.
                print(f"{credential.name}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(Path(sys.argv[1])))
