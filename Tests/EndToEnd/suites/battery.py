"""Phones that protect their battery level. bluetoothd must not read it, because then the phone asks its user to pair.

bluetoothd runs as the package has it run: with the option that its generator adds to the command of bluetooth.service."""
from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from harness.machine import BLUEZ, KIOSK, Machine, adapter_path
from harness.runner import Suite
from harness.stage import SETTINGS, Stage
from phones.android import AndroidWallet
from phones.battery import Battery, Person
from phones.ios import IOSWallet
from phones.mesh.app import App
from phones.mesh.apps import AndroidApp, IOSApp
from phones.phone import Phone
from phones.tuvali import DIALECTS
from phones.wallet import Point, Wallet
from suites.apps import NODE, Way, check, meet, node_alone, switched_on
from suites.visits import KB, credential, visit

suite = Suite("battery")
DEVICE = "org.bluez.Device1"
#: Transfers of each phone.
VISITS = 3
#: Words of the radio's limit that is reported for a bluetoothd that reads battery levels.
WORDS = "--noplugin=battery"


def device_path(adapter: int, phone: Phone) -> str:
    return f"{adapter_path(adapter)}/dev_{phone.address.to_string(False).replace(':', '_')}"


async def until_discovered(stage: Stage, adapter: int, phone: Phone) -> None:
    """Waits until bluetoothd has discovered the phone's services: by then it reads the battery level, if it reads it at all."""

    async def test() -> bool:
        found = (await stage.bus.objects(BLUEZ)).get(device_path(adapter, phone), {}).get(DEVICE, {})
        return bool(found.get("ServicesResolved"))

    await stage.bus.until(f"{adapter_path(adapter)} has discovered {phone.address}", test, 20)


@asynccontextmanager
async def battery_of(stage: Stage, phone: Phone, person: Person, adapter: int = KIOSK) -> AsyncIterator[Battery]:
    """Gives the phone a Battery Service. At the end bluetoothd forgets the phone, if they were paired."""
    try:
        yield Battery(phone, person)
    finally:
        await phone.hang_up()
        if await stage.machine.forget_device(adapter, device_path(adapter, phone)):
            stage.measure("was paired")


def _add_kiosk(make: type[Wallet], person: Person) -> None:
    @suite.test(f"An {make.kind} phone with a protected battery level, whose user {person.value}, transfers {VISITS} credentials without such a request",
                limit=120)
    async def test(stage: Stage) -> None:
        await stage.phone.switch_off()
        await stage.set()
        async with battery_of(stage, stage.phone, person) as battery:

            async def at(point: Point) -> None:
                if point is Point.DECISION:
                    await until_discovered(stage, KIOSK, stage.phone)

            for _ in range(VISITS):
                await visit(stage, make(stage.phone, DIALECTS["0.5"]), credential(10 * KB), at=at)
            battery.check()
        # The next test gets a phone without a Battery Service.
        await stage.phone.switch_off()


def _add_mesh(make: type[App], way: Way, person: Person) -> None:
    @suite.test(f"An {make.kind} phone {way.value}, with a protected battery level, whose user {person.value}, chats without such a request", limit=150)
    async def test(stage: Stage) -> None:
        app = make("phone")
        async with node_alone(stage) as node, switched_on(stage, app) as (radio,):
            async with battery_of(stage, radio.phone, person, NODE) as battery:
                neighbour = await meet(radio, node, way)
                await until_discovered(stage, NODE, radio.phone)
                app.say("from the phone")
                await node.until_heard("from the phone")
                await node.say("from the node")
                await app.until("hears the node", lambda: app.has_line("from the node"))
                number = await node.tell(app.id.hex(), "in private")
                await app.until("is told", lambda: [heard for heard in app.private if heard.text == "in private"])
                await node.until_state(number, "delivered", "read")
                check(app)
                battery.check()
                if way is Way.FOUND or stage.machine.bluez < (5, 76):
                    # Without discovery of a connected phone, a node on BlueZ 5.66 would not find the phone's characteristic.
                    assert neighbour.is_subscribed, "the node has not subscribed at the phone"


for _person in Person:
    for _make in (IOSWallet, AndroidWallet):
        _add_kiosk(_make, _person)
    _add_mesh(IOSApp, Way.COMES, _person)
    _add_mesh(AndroidApp, Way.FOUND, _person)


async def limits(stage: Stage) -> str:
    return " ".join((await stage.kiosk.manager())["RadioLimits"])


@suite.test("A bluetoothd that reads battery levels asks a phone to pair, and the status reports it until bluetoothd has the option", limit=120)
async def without_option(stage: Stage) -> None:
    await stage.set()
    machine = stage.machine
    assert WORDS not in await limits(stage)
    async with machine.without_generator():
        await machine.restart_bluetoothd()
        await stage.phone.switch_off()
        await stage.set()
        await stage.kiosk.until_limit(WORDS, True)
        async with battery_of(stage, stage.phone, Person.SILENT) as battery:
            link = await stage.phone.connect((await IOSWallet(stage.phone, DIALECTS["0.5"]).find(await stage.kiosk.invitation()))[0])
            await stage.bus.until("the phone is asked to pair", _is_asked(battery), 20, every=0.2)
            await link.disconnect()
        await stage.phone.switch_off()
    # The option is in the unit again, and bluetoothd still runs without it.
    assert WORDS in await limits(stage)
    await machine.restart_bluetoothd()
    await stage.kiosk.until_limit(WORDS, False)


def _is_asked(battery: Battery):
    async def test() -> bool:
        return battery.requests > 0 and battery.refusals > 0

    return test


@suite.test("The options that an administrator gives bluetoothd stay beside the package's", limit=60)
async def administrator(stage: Stage) -> None:
    await stage.set()
    machine: Machine = stage.machine
    program = "/usr/libexec/bluetooth/bluetoothd"
    async with machine.bluetooth_unit(f"[Service]\nExecStart=\nExecStart={program} --noplugin=sap\n"):
        await machine.restart_bluetoothd()
        assert await machine.bluetoothd_command() == [program, "--noplugin=sap", "--noplugin=sap,battery"]
        await stage.set(SETTINGS)
        assert WORDS not in await limits(stage)
    await machine.restart_bluetoothd()
