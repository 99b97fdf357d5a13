#!/usr/bin/env python3
"""An uplink of another author for a node of the mesh: Nostr by nostr-sdk, D-Bus by dbus-fast, both from PyPI.

    uplink-client.py BUS NAME RELAY    carries the packets of the node with the bus name NAME over one relay

It takes the part of earshot-nostrd, with NIP-17 messages. No code of Earshot is used.
"""

import asyncio
import sys

from dbus_fast import Message, MessageType
from dbus_fast.aio import MessageBus
from dbus_fast.service import ServiceInterface, method
from nostr_sdk import (
    Client,
    Filter,
    Keys,
    Kind,
    KindStandard,
    PublicKey,
    RelayUrl,
    ReqTarget,
    UnwrappedGift,
    nip17_make_private_msg,
)


class Sink(ServiceInterface):
    """The interface that earshotd calls."""

    def __init__(self, keys: Keys, client: Client) -> None:
        super().__init__("org.earshot.MeshUplinkSink1")
        self.keys = keys
        self.client = client
        self.sent: set[str] = set()

    @method()
    def Contacts(self, keys: "as") -> None:  # noqa: F722, N802
        """Replaces the contacts."""
        print(f"contacts: {len(keys)}", flush=True)

    @method()
    async def Send(self, packet: "s", kind: "s", key: "s", text: "s", created: "t") -> None:  # noqa: ARG002, F821, N802
        """Sends a text as a NIP-17 message."""
        if packet in self.sent:
            return
        self.sent.add(packet)
        await self.client.send_event(nip17_make_private_msg(self.keys, PublicKey.parse(key), text))
        print(f"sent: {kind}", flush=True)

    @method()
    def Cancel(self, packet: "s") -> None:  # noqa: F821, N802
        """Nothing is repeated."""

    @method()
    def Wipe(self) -> None:  # noqa: N802
        """Nothing is stored."""


async def main() -> None:
    """Carries packets until the process is ended."""
    address, name, relay = sys.argv[1:]
    keys = Keys.generate()
    client = Client()
    await client.add_relay(RelayUrl.parse(relay))
    await client.connect()
    bus = await MessageBus(bus_address=address).connect()
    bus.export("/org/earshot/uplink/sink", Sink(keys, client))

    async def call(member: str, *texts: str) -> Message:
        answer = await bus.call(
            Message(
                destination=name,
                path="/org/earshot/mesh/uplink",
                interface="org.earshot.MeshUplink1",
                member=member,
                signature="s" * len(texts),
                body=list(texts),
            )
        )
        if answer.message_type == MessageType.ERROR:
            print(f"{member}: {answer.error_name} {answer.body}", flush=True)
        return answer

    stream = client.notifications()
    query = Filter().kind(Kind.from_std(KindStandard.GIFT_WRAP)).pubkey(keys.public_key())
    await client.subscribe(ReqTarget.auto([query]))

    async def attach() -> None:
        """Attaches to each earshotd that gets the bus name."""
        owner = None
        while True:
            answer = await bus.call(
                Message(
                    destination="org.freedesktop.DBus",
                    path="/org/freedesktop/DBus",
                    interface="org.freedesktop.DBus",
                    member="GetNameOwner",
                    signature="s",
                    body=[name],
                )
            )
            now = answer.body[0] if answer.message_type == MessageType.METHOD_RETURN else None
            if now is None or now == owner:
                owner = now
            elif (await call("Attach", keys.public_key().to_bech32())).message_type == MessageType.METHOD_RETURN:
                owner = now
                print("listening", flush=True)
            await asyncio.sleep(0.5)

    async def deliver(sender: str, text: str) -> None:
        """Hands over a text until earshotd has handled or refused it."""
        while (answer := await call("Received", sender, text)).message_type == MessageType.ERROR:
            if answer.error_name == "org.earshot.Error.InvalidArgs":
                return
            await asyncio.sleep(1)

    attaching = asyncio.create_task(attach())
    known: set[str] = set()
    while not attaching.done() and (notification := await stream.next()) is not None:
        if not notification.is_new_event() or notification.event.id().to_hex() in known:
            continue
        known.add(notification.event.id().to_hex())
        gift = UnwrappedGift.from_gift_wrap(keys, notification.event)
        print(f"received: {len(gift.rumor().content())} characters", flush=True)
        await deliver(gift.sender().to_bech32(), gift.rumor().content())
    await attaching


asyncio.run(main())
