"""The radio of a Bitchat phone: like both apps it advertises, serves the characteristic, scans and connects."""
from __future__ import annotations

import asyncio
import time

from bumble.core import AdvertisingData
from bumble.core import TimeoutError as BumbleTimeoutError
from bumble.core import UUID
from bumble.device import Connection
from bumble.gatt import Characteristic, CharacteristicValue, Service
from bumble.hci import Address, HCI_Error

from phones.mesh.air import MeshLink
from phones.mesh.app import App
from phones.mesh.apps import AndroidApp
from phones.mesh.packets import Stream
from phones.phone import Link, LinkLost, Phone, Sighting

SERVICE = "F47B5E2D-4A9E-4C5A-9B3F-8E1D2C3A4B5C"
CHARACTERISTIC = "A1B2C3D4-E5F6-4A5B-8C9D-0E1F2A3B4C5D"
#: Maximum length of a characteristic's value.
LONGEST_VALUE = 512


def is_of_node(data: bytes) -> bool:
    """Whether advertising data contains the service UUID of Bitchat."""
    lists = (
        AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS,
        AdvertisingData.INCOMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS,
    )
    found = AdvertisingData.from_bytes(data).ad_structures
    return any(kind in lists and bytes(UUID(SERVICE)) in value for kind, value in found)


class Neighbour(MeshLink):
    """A connection from either side: the phone is its client, its server, or both."""

    def __init__(self, radio: MeshRadio, connection: Connection) -> None:
        super().__init__()
        self.radio = radio
        self.connection = connection
        #: The client's side, if this phone has discovered the characteristic.
        self.client: Link | None = None
        #: Whether the neighbour has subscribed here.
        self.is_subscribed = False
        self.stream = Stream()
        #: Number of frames sent and received, by path.
        self.counts = {"written": 0, "notified": 0, "read": 0, "heard": 0}

    @property
    def limit(self) -> int:
        return min(self.connection.att_mtu - 3, LONGEST_VALUE)

    @property
    def notifies(self) -> bool:
        """An iPhone prefers to write; an Android phone notifies its subscribers first."""
        return self.is_subscribed and (self.client is None or isinstance(self.radio.app, AndroidApp))

    @property
    def state(self) -> str:
        queue = self.connection.data_packet_queue
        return f"{super().state}; {queue.pending if queue else None} in the stack; {self.counts}; {self.limit} bytes at most"

    async def carry(self, frame: bytes) -> None:
        if len(frame) > self.limit:
            self.radio.app.note(f"{len(frame)} bytes do not fit into a link of {self.limit}")
            return
        try:
            if self.notifies:
                await self.radio.server.notify_subscriber(self.connection, self.radio.characteristic, frame)
                self.counts["notified"] += 1
                await self._drain()
            elif self.client is not None:
                await self.client.command(CHARACTERISTIC, frame)
                self.counts["written"] += 1
        except (LinkLost, HCI_Error, BumbleTimeoutError, asyncio.InvalidStateError):
            self.end()

    async def _drain(self) -> None:
        queue = self.connection.data_packet_queue
        while queue is not None and queue.pending > Link.ROOM and self in self.radio.app.links:
            await asyncio.sleep(0.01)

    def on_notification(self, value: bytes) -> None:
        self.counts["heard"] += 1
        app = self.radio.app
        if isinstance(app, AndroidApp):
            app.received(self, value)
            return
        before = len(self.stream.lost)
        frames = self.stream.feed(value, time.monotonic())
        for lost in self.stream.lost[before:]:
            app.note(lost)
        for frame in frames:
            app.received(self, frame + self._padding(value, frame))

    @staticmethod
    def _padding(value: bytes, frame: bytes) -> bytes:
        """Checks the padding, which is cut off the stream. It is visible where a value contains exactly one packet."""
        return value[len(frame):] if value.startswith(frame) else b""

    def on_write(self, value: bytes) -> None:
        self.counts["read"] += 1
        self.radio.app.received(self, value)


class MeshRadio:
    """Connects an app to a phone's radio."""

    #: Seconds: Android requests the MTU with this delay after the connection, and reports readiness to the app with this delay.
    ASKS_AFTER, READY_AFTER = 0.2, 0.2
    IOS_ANNOUNCES_AFTER = 0.05
    #: From a subscription to the announce.
    IOS_ANSWERS_AFTER, ANDROID_ANSWERS_AFTER = 0.4, 0.1

    def __init__(self, phone: Phone, app: App) -> None:
        self.phone = phone
        self.app = app
        self.neighbours: dict[Connection, Neighbour] = {}
        self.advertises = False
        self._works: set[asyncio.Task[None]] = set()

    @property
    def is_android(self) -> bool:
        return isinstance(self.app, AndroidApp)

    async def switch_on(self) -> None:
        """Takes the controller, which must be powered off."""
        await self.phone.switch_on()
        device = self.phone.device
        assert device is not None
        properties = Characteristic.Properties
        permissions = Characteristic.Permissions
        self.characteristic = Characteristic(
            CHARACTERISTIC, properties.NOTIFY | properties.WRITE | properties.WRITE_WITHOUT_RESPONSE | properties.READ,
            permissions.READABLE | permissions.WRITEABLE,
            CharacteristicValue(read=lambda connection: b"", write=self._on_write),
        )
        device.add_service(Service(SERVICE, [self.characteristic]))
        self.server = device.gatt_server
        self.server.max_mtu = 517
        self.characteristic.on(Characteristic.EVENT_SUBSCRIPTION, self._on_subscription)
        device.on(device.EVENT_CONNECTION, self._on_connection)

    async def switch_off(self) -> None:
        self.app.close()
        # Otherwise advertising would restart when its links end.
        self.advertises = False
        for work in self._works:
            work.cancel()
        if self._works:
            await asyncio.wait(self._works)
        await self.phone.hang_up()
        await self.phone.switch_off()
        self.neighbours.clear()

    # Advertising.

    async def advertise(self) -> None:
        """Advertises the service UUID alone; Android's ID is in the scan response."""
        assert self.phone.device is not None
        uuid = bytes(UUID(SERVICE))
        structures = [(AdvertisingData.FLAGS, b"\x06"), (AdvertisingData.COMPLETE_LIST_OF_128_BIT_SERVICE_CLASS_UUIDS, uuid)]
        answer = [(AdvertisingData.SERVICE_DATA_128_BIT_UUID, uuid + self.app.id)] if self.is_android else []
        self.advertises = True
        await self.phone.device.start_advertising(
            advertising_data=bytes(AdvertisingData(structures)), scan_response_data=bytes(AdvertisingData(answer)),
            advertising_interval_min=100, advertising_interval_max=150,
        )

    async def _advertise_again(self) -> None:
        """Restarts advertising, which a link has ended."""
        if self.advertises and self.phone.is_on:
            await self.advertise()

    async def hide(self) -> None:
        assert self.phone.device is not None
        self.advertises = False
        await self.phone.device.stop_advertising()

    # Scanning.

    async def find(self, address: str | None = None, timeout: float = 30) -> Address:
        """The address of an advertiser of the service.

        address: the requested advertiser, if there are several."""

        def matches(seen: Sighting) -> Address | None:
            is_meant = address is None or seen.address.to_string(False) == address
            return seen.address if is_of_node(seen.data) and is_meant else None

        return await self.phone.look(matches, timeout)

    async def connect(self, address: Address) -> Neighbour:
        """Connects and makes the link ready, as the app's system does."""
        link = await self.phone.connect(address, 517)
        neighbour = self._neighbour(link.connection)
        if self.is_android:
            await asyncio.sleep(self.ASKS_AFTER)
        await link.exchange_mtu(517 if self.is_android else 527)
        if self.is_android and link.mtu != 517:
            await link.disconnect()
            raise LinkLost(f"the MTU is {link.mtu}")
        await link.discover_uuid(UUID(SERVICE))
        try:
            await link.subscribe(CHARACTERISTIC, neighbour.on_notification)
        except LookupError:
            await link.disconnect()
            raise
        neighbour.client = link
        self._join(neighbour)
        delay = self.READY_AFTER if self.is_android else self.IOS_ANNOUNCES_AFTER
        self.app.later(delay, lambda: self.app.announce([neighbour]))
        return neighbour

    # Events of the stack.

    def _neighbour(self, connection: Connection) -> Neighbour:
        found = self.neighbours.get(connection)
        if found is None:
            found = self.neighbours[connection] = Neighbour(self, connection)
            connection.on(connection.EVENT_DISCONNECTION, lambda reason: self._on_closed(connection))
        return found

    def _join(self, neighbour: Neighbour) -> None:
        if neighbour not in self.app.links:
            self.app.joined(neighbour)

    def _on_connection(self, connection: Connection) -> None:
        self._neighbour(connection)

    def _on_closed(self, connection: Connection) -> None:
        neighbour = self.neighbours.pop(connection, None)
        if neighbour is not None:
            self.app.left(neighbour)
        work = asyncio.ensure_future(self._advertise_again())
        self._works.add(work)
        work.add_done_callback(self._works.discard)

    def _on_write(self, connection: Connection, value: bytes) -> None:
        neighbour = self._neighbour(connection)
        self._join(neighbour)
        neighbour.on_write(bytes(value))

    def _on_subscription(self, connection: Connection, notifies: bool, indicates: bool) -> None:
        neighbour = self._neighbour(connection)
        neighbour.is_subscribed = notifies
        if not notifies:
            return
        self._join(neighbour)
        delay = self.ANDROID_ANSWERS_AFTER if self.is_android else self.IOS_ANSWERS_AFTER
        self.app.later(delay, lambda: self.app.announce([neighbour]))
