"""A second service on the kiosk's adapter, and a peer that writes to it every second. The kiosk must not affect it: the peer's link
never ends, and no write is lost."""
from __future__ import annotations

import asyncio
from typing import Any

from dbus_fast import BusType, Message, MessageType, PropertyAccess
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, dbus_property, method

from harness.limits import limit
from harness.machine import BLUEZ, KIOSK, Machine, adapter_path
from phones.phone import Link, LinkLost, Phone, Sighting
from phones.second import SecondPhone
from phones.tuvali import service_list, short

#: The UUIDs of its GATT service, which is advertised while the peer connects.
SERVICE, CHARACTERISTIC = 0xFFD0, 0xFFD1
ROOT = "/tenant"
SERVICE_PATH = f"{ROOT}/service"
#: Seconds between two writes of the peer.
PAUSE = 1.0


class _Service(ServiceInterface):
    def __init__(self) -> None:
        super().__init__("org.bluez.GattService1")

    @dbus_property(access=PropertyAccess.READ)
    def UUID(self) -> "s":  # noqa: F821
        return short(SERVICE)

    @dbus_property(access=PropertyAccess.READ)
    def Primary(self) -> "b":  # noqa: F821
        return True


class _Characteristic(ServiceInterface):
    def __init__(self) -> None:
        super().__init__("org.bluez.GattCharacteristic1")
        self.values: list[int] = []

    @dbus_property(access=PropertyAccess.READ)
    def UUID(self) -> "s":  # noqa: F821
        return short(CHARACTERISTIC)

    @dbus_property(access=PropertyAccess.READ)
    def Service(self) -> "o":  # noqa: F821
        return SERVICE_PATH

    @dbus_property(access=PropertyAccess.READ)
    def Flags(self) -> "as":  # noqa: F722
        return ["write"]

    @method()
    def WriteValue(self, value: "ay", options: "a{sv}"):  # noqa: F722, F821
        self.values.append(int.from_bytes(bytes(value), "big"))


class _Advertisement(ServiceInterface):
    def __init__(self) -> None:
        super().__init__("org.bluez.LEAdvertisement1")

    @dbus_property(access=PropertyAccess.READ)
    def Type(self) -> "s":  # noqa: F821
        return "peripheral"

    @dbus_property(access=PropertyAccess.READ)
    def ServiceUUIDs(self) -> "as":  # noqa: F722
        return [short(SERVICE)]

    @dbus_property(access=PropertyAccess.READ)
    def LocalName(self) -> "s":  # noqa: F821
        return "tenant"

    @method()
    def Release(self):
        pass


class Tenant:
    """The second service with its peer: both run in this program, on a bus connection and on adapters of their own."""

    def __init__(self, machine: Machine, peer: SecondPhone) -> None:
        self.machine = machine
        self.peer = peer
        self.link: Link | None = None
        self.written = 0
        self._bus: MessageBus | None = None
        self._characteristic = _Characteristic()
        self._work: asyncio.Task[None] | None = None
        self._trouble = ""

    @property
    def is_here(self) -> bool:
        return self._work is not None

    # The service's side.

    async def _call(self, interface: str, method: str, signature: str, *arguments: Any) -> None:
        assert self._bus is not None
        message = Message(
            destination=BLUEZ, path=adapter_path(KIOSK), interface=f"org.bluez.{interface}", member=method,
            signature=signature, body=list(arguments),
        )
        async with asyncio.timeout(limit(30)):
            reply = await self._bus.call(message)
        if reply.message_type is MessageType.ERROR:
            raise RuntimeError(f"{method}: {reply.error_name} {reply.body}")

    async def _serve(self) -> None:
        self._bus = await MessageBus(bus_type=BusType.SYSTEM).connect()
        self._bus.export(SERVICE_PATH, _Service())
        self._bus.export(f"{SERVICE_PATH}/characteristic", self._characteristic)
        self._bus.export(f"{ROOT}/advertisement", _Advertisement())
        await self._call("GattManager1", "RegisterApplication", "oa{sv}", ROOT, {})

    async def _connect(self, phone: Phone) -> Link:
        """Connects a phone to this service, which is advertised only for this, because a link ends the advertisement's set."""
        await self._call("LEAdvertisingManager1", "RegisterAdvertisement", "oa{sv}", f"{ROOT}/advertisement", {})
        try:

            def is_tenant(seen: Sighting) -> object | None:
                return seen.address if SERVICE in service_list(seen.data) else None

            return await phone.connect(await phone.look(is_tenant))
        finally:
            await self._call("LEAdvertisingManager1", "UnregisterAdvertisement", "o", f"{ROOT}/advertisement")

    # Start and stop.

    async def come(self, visitors: Phone) -> None:
        """Registers the service and connects its peer while the other phone is connected (see `SecondPhone`)."""
        self._characteristic.values.clear()
        self.written, self._trouble = 0, ""
        await self._serve()
        placeholder = await self._connect(visitors)
        try:
            self.link = await self._connect(self.peer)
        finally:
            await placeholder.disconnect()
        await self.link.discover(SERVICE)
        self._work = asyncio.ensure_future(self._write())

    async def _write(self) -> None:
        """Writes increasing numbers until it is stopped."""
        assert self.link is not None
        try:
            while True:
                await self.link.request(short(CHARACTERISTIC), (self.written + 1).to_bytes(4, "big"))
                self.written += 1
                await self.link.until_closed(asyncio.ensure_future(asyncio.sleep(PAUSE)))
        except LinkLost as lost:
            self._trouble = str(lost)

    def check(self) -> None:
        """Checks that the link is the original one, and that every write has arrived once and in order."""
        assert self._work is not None and self.link is not None
        if self._work.done() and not self._trouble:
            self._work.result()
        assert not self._trouble, f"the second service's peer, after {self.written} writes: {self._trouble}"
        arrived = self._characteristic.values
        assert arrived[: self.written] == list(range(1, self.written + 1)), f"{self.written} writes, arrived: {arrived}"
        assert self.written > 0, "the second service's peer has not written yet"

    async def go(self) -> None:
        """Ends everything, from any state."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work})
        self._work = self.link = None
        if self._bus is not None:
            self._bus.disconnect()
            self._bus = None
