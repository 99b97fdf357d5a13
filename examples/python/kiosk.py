#!/usr/bin/python3
"""A kiosk: writes the text of each QR code, stores valid credentials of trusted issuers, and accepts them.

kiosk.py FOLDER             needs python3-earshot, the group earshot, and Check=yes in earshot.conf
"""

import asyncio
import os
import sys
import time
from pathlib import Path

import earshot


async def store(path: Path, credential: earshot.Credential) -> None:
    """Writes a new file that only its owner may read, and returns when it is on the disk.

    The file is created before the credential is fetched, because the service erases an accepted one then.
    """
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(await credential.fetch())
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


async def handle(credential: earshot.Credential, folder: Path) -> None:
    """Judges one credential. It is stored before it is accepted, because the service then erases it."""
    if not credential.verdict:
        # Rejecting it would refuse every phone.
        print(f"{credential.name}: not checked. Set Check=yes in earshot.conf.", file=sys.stderr, flush=True)
        return
    claims = await credential.claims()
    if credential.verdict != "valid" or not claims:
        codes = ", ".join(reason.code for reason in credential.reasons)
        print(f"{credential.name}: {credential.verdict} ({codes})", flush=True)
        if credential.state == "received":
            await credential.reject()
        return
    # Numbers begin again if the state of the service is erased, so the time makes the name unique.
    await store(folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{credential.name}.json", credential)
    notified = credential.state != "received" or await credential.accept()
    print(f"{credential.name}: from {credential.issuer}" + ("" if notified else ", the phone had left"), flush=True)


async def show_codes(service: earshot.Service) -> None:
    """Writes the text of each QR code: the code changes when a wallet has used it."""
    async for uri in service.connection_uris():
        if uri:
            print(uri, flush=True)
            continue
        print("No wallet is invited now.", flush=True)
        try:
            # Has no effect if the verifier runs, but has no radio or no capacity.
            await service.start_verifier()
        except earshot.EarshotError as error:
            print(error, file=sys.stderr, flush=True)


async def main(folder: Path) -> None:
    """Serves wallets until it is interrupted, and waits while the service does not run."""
    async with earshot.connect() as service, asyncio.TaskGroup() as group:
        group.create_task(show_codes(service))
        async for credential in service.credentials():
            try:
                await handle(credential, folder)
            except (earshot.EarshotError, OSError) as error:
                # Another program judged it, it expired, or the disk is full. The next credential is not affected.
                print(f"{credential.name}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(main(Path(sys.argv[1])))
