"""A phone's Bluetooth: it scans, connects, and is a GATT client. The kind of wallet is decided in other modules."""
from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from bumble.core import UUID
from bumble.core import TimeoutError as BumbleTimeoutError
from bumble.device import Connection, ConnectionParametersPreferences, Device, DeviceConfiguration, ExtendedAdvertisement
from bumble.gatt import GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR, Characteristic
from bumble.gatt_client import CharacteristicProxy
from bumble.hci import Address, HCI_Error, Phy
from bumble.host import Host

from harness.limits import limit
from harness.management import take_down
from phones.channel import HCIUserChannel

T = TypeVar("T")
Handler = Callable[[bytes], None]

#: The reason with which a phone ends its links when it is switched off.
POWER_OFF = 0x15


class LinkLost(Exception):
    """The link ended during an operation."""


@dataclass(frozen=True)
class Sighting:
    """An advertisement with its scan response."""

    address: Address
    data: bytes
    scan_response: bytes


@dataclass(frozen=True)
class ParameterRequest:
    """The peripheral's L2CAP Connection Parameter Update Request: intervals in 1.25 ms, the timeout in 10 ms."""

    shortest: int
    longest: int
    latency: int
    timeout: int


def _whole(uuid: UUID) -> bytes:
    """Expands a UUID to 16 bytes."""
    return uuid.to_bytes(force_128=True)


class Link:
    """A connection and the client on it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.client = connection.gatt_client
        self.closed: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        #: Whether this side ended the link. The reason does not show it, because controllers report different reasons.
        self.left = False
        self.characteristics: dict[bytes, CharacteristicProxy] = {}
        connection.on(connection.EVENT_DISCONNECTION, self._on_closed)

    def _on_closed(self, reason: int) -> None:
        if not self.closed.done():
            self.closed.set_result(reason)

    async def until_closed(self, work: asyncio.Future[T] | asyncio.Task[T]) -> T:
        """Waits for `work`, but only while the link lasts."""
        await asyncio.wait({work, self.closed}, return_when=asyncio.FIRST_COMPLETED)
        # A failure because of a closed link is reported as that.
        if work.done() and not work.cancelled():
            return work.result()
        work.cancel()
        raise LinkLost(f"the link was closed, reason 0x{self.closed.result():02x}")

    @property
    def interval(self) -> float:
        """The connection interval in milliseconds."""
        return self.connection.parameters.connection_interval

    async def until_interval(self, interval: float) -> None:
        """Waits until the link has this interval."""
        changed = asyncio.Event()
        event = self.connection.EVENT_CONNECTION_PARAMETERS_UPDATE
        self.connection.on(event, changed.set)
        try:
            async with asyncio.timeout(limit(10)):
                while self.interval != interval:
                    changed.clear()
                    await self.until_closed(asyncio.ensure_future(changed.wait()))
        except TimeoutError:
            raise TimeoutError(f"the link's interval is {self.interval} ms, and not {interval} ms") from None
        finally:
            self.connection.remove_listener(event, changed.set)

    async def exchange_mtu(self, mtu: int) -> int:
        """Requests an MTU, even repeatedly; the smaller one of both sides is in force."""
        self.client.mtu_exchange_done = False
        return await self.client.request_mtu(mtu)

    @property
    def mtu(self) -> int:
        return self.client.mtu

    async def discover(self, service: int) -> None:
        """Discovers all services, then the characteristics and descriptors of one."""
        await self.discover_uuid(UUID.from_16_bits(service))

    async def discover_uuid(self, wanted: UUID) -> None:
        services = [found for found in await self.client.discover_services() if found.uuid == wanted]
        if len(services) != 1:
            raise LookupError(f"{len(services)} services {wanted}")
        for characteristic in await services[0].discover_characteristics():
            self.characteristics[_whole(characteristic.uuid)] = characteristic

    def _characteristic(self, uuid: str) -> CharacteristicProxy:
        found = self.characteristics.get(_whole(UUID(uuid)))
        if found is None:
            raise LookupError(f"no characteristic {uuid}")
        return found

    async def request(self, uuid: str, value: bytes) -> None:
        """Write Request: returns with the answer."""
        work = asyncio.ensure_future(self._characteristic(uuid).write_value(value, with_response=True))
        await self.until_closed(work)

    async def command(self, uuid: str, value: bytes) -> None:
        """Write Command: returns when the stack has buffer space for the next one. On a closed link it fails."""
        if self.closed.done():
            raise LinkLost(f"the link was closed, reason 0x{self.closed.result():02x}")
        await self._characteristic(uuid).write_value(value, with_response=False)
        await self.sent(self.ROOM)

    #: Number of packets that may wait in the stack before it reports congestion.
    ROOM = 12

    async def sent(self, left: int = 0) -> None:
        """Waits until no more than `left` packets wait for transmission."""
        queue = self.connection.data_packet_queue
        while queue is not None and queue.pending > left:
            if self.closed.done():
                raise LinkLost("the link was closed while something was to be sent")
            flow = asyncio.get_running_loop().create_future()
            listener = queue.once("flow", lambda flow=flow: flow.done() or flow.set_result(None))
            try:
                await self.until_closed(flow)
            finally:
                if not flow.done() or flow.cancelled():
                    queue.remove_listener("flow", listener)

    def when_sent(self, then: Callable[[], None]) -> None:
        """Calls `then` as soon as no packet waits for transmission, within the event that reports it."""
        queue = self.connection.data_packet_queue

        def on_flow() -> None:
            if queue.pending == 0:
                queue.remove_listener("flow", on_flow)
                then()

        queue.on("flow", on_flow)

    def listen(self, uuid: str, handler: Handler) -> None:
        """Delivers notifications here without a write of the CCCD; indications are not delivered."""
        handle = self._characteristic(uuid).handle
        self.client.notification_subscribers.setdefault(handle, set()).add(handler)

    async def subscribe(self, uuid: str, handler: Handler) -> None:
        """Writes the CCCD as a phone's system does: notifications where supported, else indications.

        A subscriber to one form does not receive the other."""
        characteristic = self._characteristic(uuid)
        await characteristic.discover_descriptors()
        cccd = characteristic.get_descriptor(GATT_CLIENT_CHARACTERISTIC_CONFIGURATION_DESCRIPTOR)
        if cccd is None:
            raise LookupError(f"{uuid} has no CCCD")
        notifies = bool(characteristic.properties & Characteristic.Properties.NOTIFY)
        subscribers = self.client.notification_subscribers if notifies else self.client.indication_subscribers
        subscribers.setdefault(characteristic.handle, set()).add(handler)
        bits = 1 if notifies else 2
        work = asyncio.ensure_future(cccd.write_value(bits.to_bytes(2, "little"), with_response=True))
        await self.until_closed(work)

    async def disconnect(self, reason: int | None = None) -> None:
        """Ends the link, if it still exists."""
        if not self.closed.done():
            self.left = True
            await (self.connection.disconnect(reason) if reason else self.connection.disconnect())
            await self.closed


class Phone:
    """One controller, with Bumble as its host."""

    def __init__(self, adapter: int, address: str = "F0:F1:F2:F3:F4:F5") -> None:
        self.adapter = adapter
        self.address = Address(address)
        self.transport: HCIUserChannel | None = None
        self.device: Device | None = None
        #: The initial connection interval of its links, in milliseconds; None for the default of its system.
        self.interval: float | None = None
        #: The parameter requests of peripherals, in order. The phone accepts them.
        self.requests: list[ParameterRequest] = []

    @property
    def data_packets(self) -> int:
        """Number of data packets over its links, both ways."""
        return self.transport.data_packets if self.transport is not None else 0

    @property
    def arrived(self) -> float:
        """When the packet that is being delivered arrived on the phone, in seconds since 1970."""
        return self.transport.arrived if self.transport is not None else 0

    @property
    def is_on(self) -> bool:
        return self.transport is not None and not self.transport.source.terminated.done()

    async def _take_adapter(self) -> HCIUserChannel:
        """Takes an adapter, which is busy while the kernel probes it after its return, and may be powered on by bluetoothd."""
        end = time.monotonic() + limit(10)
        while True:
            try:
                return HCIUserChannel(self.adapter)
            except OSError as refused:
                if refused.errno != errno.EBUSY or time.monotonic() >= end:
                    raise
            with suppress(OSError):
                take_down(self.adapter)
            await asyncio.sleep(0.05)

    async def switch_on(self) -> None:
        """Takes the controller, which must be powered off, and starts it."""
        self.transport = await self._take_adapter()
        config = DeviceConfiguration(name="phone", address=self.address, gatt_service_enabled=False)
        self.device = Device(config=config, host=Host(self.transport.source, self.transport.sink))
        manager = self.device.l2cap_channel_manager
        obey = manager.on_l2cap_connection_parameter_update_request

        def on_request(connection, cid, request) -> None:
            self.requests.append(
                ParameterRequest(request.interval_min, request.interval_max, request.latency, request.timeout)
            )
            obey(connection, cid, request)

        manager.on_l2cap_connection_parameter_update_request = on_request
        async with asyncio.timeout(limit(10)):
            await self.device.power_on()

    async def hang_up(self) -> None:
        """Ends all its links. Otherwise the other side keeps them for some time, and refuses a new link from that address."""
        for connection in list(self.device.connections.values()) if self.device is not None and self.is_on else []:
            try:
                async with asyncio.timeout(limit(10)):
                    await connection.disconnect()
            except (TimeoutError, BumbleTimeoutError, HCI_Error):
                continue  # the other side was faster

    async def switch_off(self) -> None:
        """Returns the controller to the kernel."""
        transport, self.transport, self.device = self.transport, None, None
        if transport is not None:
            await transport.close()

    async def look(self, wanted: Callable[[Sighting], T | None], timeout: float = 30) -> T:
        """Scans actively until `wanted` returns something."""
        assert self.device is not None
        host, found = self.device.host, asyncio.get_running_loop().create_future()
        waiting: dict[Address, bytes] = {}

        def on_report(report) -> None:
            seen = ExtendedAdvertisement.from_advertising_report(report)
            # A phone scans for legacy advertising only, unless it requests more.
            if not seen.is_legacy:
                return
            if not seen.is_scan_response:
                waiting[seen.address] = seen.data_bytes
                return
            data = waiting.pop(seen.address, None)
            if data is None or found.done():
                return
            if (result := wanted(Sighting(seen.address, data, seen.data_bytes))) is not None:
                found.set_result(result)

        host.on("advertising_report", on_report)
        try:
            await self.device.start_scanning(active=True, scanning_phys=[1])
            async with asyncio.timeout(limit(timeout)):
                return await found
        except TimeoutError:
            raise TimeoutError(f"nothing of the kind was seen in {limit(timeout):.0f} s") from None
        finally:
            host.remove_listener("advertising_report", on_report)
            if self.is_on:
                await self.device.stop_scanning()

    async def connect(self, address: Address, mtu: int = 517) -> Link:
        """Connects. A virtual controller of BlueZ 5.66 misses the advertisement while it is being renewed, and does not scan again by
        itself as a real one does: hence several attempts.

        mtu: the maximum of this phone's stack, which is also its answer to requests."""
        assert self.device is not None
        self.device.gatt_server.max_mtu = mtu
        self.requests.clear()
        wish = None
        if self.interval is not None:
            wish = {
                Phy.LE_1M: ConnectionParametersPreferences(
                    connection_interval_min=self.interval, connection_interval_max=self.interval
                )
            }
        for _ in range(2):
            try:
                return Link(await self.device.connect(address, connection_parameters_preferences=wish, timeout=limit(3)))
            except (TimeoutError, BumbleTimeoutError, HCI_Error):
                continue
        return Link(await self.device.connect(address, connection_parameters_preferences=wish, timeout=limit(10)))
