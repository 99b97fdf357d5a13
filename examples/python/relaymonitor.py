#!/usr/bin/python3
"""A monitor of a relay: writes what the mesh node has received, sent and relayed in each minute.

relaymonitor.py [SECONDS]   needs python3-earshot; counters are public, so no group is needed
"""

import asyncio
import sys
import time

import earshot

SHOWN = ("Frames", "SentFrames", "Relayed", "Duplicates", "DroppedFrames", "BadSignatures")


async def main(interval: float) -> None:
    """Writes a line for each interval until it is interrupted."""
    before: dict[str, int] = {}
    async with earshot.connect() as service:
        while True:
            try:
                counters = await service.mesh.counters()
            except earshot.ServiceGone:
                print("The service is not running.", flush=True)
                before = {}
            except earshot.EarshotError as error:
                # The mesh is off.
                print(error, flush=True)
                before = {}
            else:
                # Counters begin at 0 when the service starts.
                restarted = any(counters.get(name, 0) < before.get(name, 0) for name in SHOWN)
                old = {} if restarted else before
                if before:
                    news = "  ".join(f"{name} {counters.get(name, 0) - old.get(name, 0)}" for name in SHOWN)
                    print(time.strftime("%H:%M:%S"), news, flush=True)
                before = counters
            await asyncio.sleep(interval)


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0))
