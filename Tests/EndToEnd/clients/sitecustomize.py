"""Python itself imports this in each of other people's clients, which are as they came from PyPI.

It names the adapter that bleak uses, which takes any that is on otherwise. And it has bleak 3.1 ask bluetoothd whether the peer is connected:
5.82 does not signal that of some links, and in a guest of few (docs/facts/bluez.md section 12), and bleak, which goes by its list of what was
signalled, takes the peer for gone ("failed to discover services, device disconnected"): 10 of 10 times on a fast machine."""
import asyncio
import os
from contextlib import suppress

from bleak.backends.bluezdbus.manager import BlueZManager
from dbus_fast.message import Message

DEVICE = "org.bluez.Device1"
#: Seconds.
PATIENCE = 5
wait_for_services = BlueZManager._wait_for_services_discovery


async def is_connected(manager: BlueZManager, device: str) -> bool:
    """Queries the connection state from bluetoothd, independent of its signals."""
    answer = await manager._bus.call(
        Message("org.bluez", device, "org.freedesktop.DBus.Properties", "Get", signature="ss", body=[DEVICE, "Connected"]))
    return bool(answer and answer.body and getattr(answer.body[0], "value", False))


async def wait_for_connection_and_services(self: BlueZManager, device: str) -> None:
    # If the peer is not connected by then, bleak reports the error itself.
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while not await is_connected(self, device):
                await asyncio.sleep(0.05)
            if device in self._properties:
                self._properties[device][DEVICE]["Connected"] = await is_connected(self, device)
    await wait_for_services(self, device)


BlueZManager.get_default_adapter = lambda self: f"/org/bluez/{os.environ['CLIENT_ADAPTER']}"
BlueZManager._wait_for_services_discovery = wait_for_connection_and_services
