import Air
import BlueZ
import Common
import DBus
import HCI
import Journal
import Loop
import Radio
import TestSupport
import Testing

@Suite("The status of the radio")
struct StatusTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("The radio is ready if an adapter is powered")
  @LoopActor
  func ready() async throws {
    let rig = try await Rig()
    defer { rig.close() }
    let status = try await rig.reach(.ready)
    #expect(status == RadioStatus(.ready, adapters: ["hci0"], stack: "BlueZ", traits: status.traits))
    #expect(rig.radio.status == status)
  }

  @Test("Without bluetoothd the radio is waiting, and it becomes ready when bluetoothd starts")
  @LoopActor
  func noDaemon() async throws {
    let rig = try await Rig(prepare: nil)
    defer { rig.close() }
    try await rig.reach(.waiting, "systemctl start bluetooth")
    rig.fake.addAdapter()
    try await rig.fake.start()
    try await rig.reach(.ready)
    rig.fake.vanish()
    try await rig.reach(.waiting, "systemctl start bluetooth")
  }

  @Test("Without an adapter the radio is waiting, and it becomes ready when an adapter appears")
  @LoopActor
  func noAdapter() async throws {
    let rig = try await Rig(prepare: { _ in })
    defer { rig.close() }
    try await rig.reach(.waiting, "There is no Bluetooth adapter")
    rig.fake.addAdapter()
    #expect(try await rig.reach(.ready).adapters == ["hci0"])
    rig.fake.removeAdapter()
    try await rig.reach(.waiting, "There is no Bluetooth adapter")
  }

  @Test("A powered-off adapter is named in the status, with the command that powers it on")
  @LoopActor
  func switchedOff() async throws {
    let rig = try await Rig(prepare: { $0.addAdapter(isPowered: false) })
    defer { rig.close() }
    try await rig.reach(.waiting, "The adapter hci0 is switched off: bluetoothctl power on")
    rig.fake.power("hci0", true)
    try await rig.reach(.ready)
    rig.fake.power("hci0", false)
    try await rig.reach(.waiting, "switched off")
  }

  @Test("If a configured adapter is absent, the radio waits for it although another adapter is present")
  @LoopActor
  func namedAdapter() async throws {
    let rig = try await Rig(adapter: "hci1")
    defer { rig.close() }
    try await rig.reach(.waiting, "The configured adapter hci1 does not exist, only hci0")
    rig.fake.addAdapter("hci1")
    #expect(try await rig.reach(.ready).adapters == ["hci1", "hci0"])
  }

  @Test("The adapter can be configured by its address")
  @LoopActor
  func addressedAdapter() async throws {
    let rig = try await Rig(
      adapter: "00:aa:01:01:00:01",
      prepare: {
        $0.addAdapter()
        $0.addAdapter("hci1")
      })
    defer { rig.close() }
    #expect(try await rig.reach(.ready).adapters == ["hci1", "hci0"])
  }

  @Test("The first usable adapter stays in use when an adapter with a lower number is powered on")
  @LoopActor
  func severalAdapters() async throws {
    let rig = try await Rig(prepare: {
      $0.addAdapter("hci0", isPowered: false)
      $0.addAdapter("hci1", roles: ["central"])
      $0.addAdapter("hci2")
    })
    defer { rig.close() }
    #expect(try await rig.reach(.ready).adapters == ["hci2", "hci0", "hci1"])
    rig.fake.power("hci0", true)
    try await rig.settle()
    #expect(rig.radio.status.adapters.first == "hci2")
    rig.fake.removeAdapter("hci2")
    _ = try await rig.statuses.first { $0.adapters.first == "hci0" && $0.state == .ready }
  }

  @Test("An adapter that does not support the peripheral role is not used")
  @LoopActor
  func unfit() async throws {
    let rig = try await Rig(prepare: { $0.addAdapter(roles: ["central"]) })
    defer { rig.close() }
    try await rig.reach(.degraded, "The adapter hci0 can neither advertise nor serve")
  }

  @Test("An adapter whose D-Bus interfaces appear one after another is reported as incomplete only after 3 s")
  @LoopActor
  func bitByBit() async throws {
    let rig = try await Rig(prepare: { $0.addAdapter(isComplete: false) })
    defer { rig.close() }
    try await rig.settle()
    rig.fake.completeAdapter()
    try await rig.reach(.ready)
    #expect(rig.statuses.all.count == 1)

    rig.fake.removeAdapter()
    try await rig.reach(.waiting, "There is no Bluetooth adapter")
    rig.fake.addAdapter(isComplete: false)
    try await rig.settle()
    rig.time.advance(by: .milliseconds(2999))
    try await rig.settle()
    #expect(rig.statuses.all.last?.state == .waiting)
    rig.time.advance(by: .milliseconds(1))
    try await rig.reach(.degraded, "can neither advertise nor serve")
  }

  @Test("If bluetoothd does not list its objects, the request is repeated at growing intervals")
  @LoopActor
  func silent() async throws {
    let rig = try await Rig(prepare: {
      $0.addAdapter()
      $0.isSilent = true
    })
    defer { rig.close() }
    try await rig.reach(.waiting, "does not answer: systemctl restart bluetooth")
    rig.time.advance(by: .milliseconds(500))
    try await rig.settle()
    #expect(rig.radio.status.state == .waiting)
    rig.fake.isSilent = false
    rig.time.advance(by: .milliseconds(999))
    try await rig.settle()
    #expect(rig.radio.status.state == .waiting)
    rig.time.advance(by: .milliseconds(1))
    try await rig.reach(.ready)
  }

  @Test(
    "Limits of an old bluetoothd version are in the radio status, except those that the management socket removes",
    arguments: [("5.66", 5, 3), ("5.69", 4, 2), ("5.75", 3, 2), ("5.80", 1, 1), ("5.82", 0, 0), ("", 0, 0)])
  @LoopActor
  func limits(text: String, withoutSocket: Int, withSocket: Int) async throws {
    for (isManaged, count) in [(false, withoutSocket), (true, withSocket)] {
      let rig =
        isManaged ? try await Rig.managed(version: BlueZVersion(text)) : try await Rig(version: BlueZVersion(text))
      defer { rig.close() }
      #expect(rig.radio.status.limits.count == count)
      let way = text < "5.76" ? "WriteValue and PropertiesChanged for all clients" : "sockets for each client"
      #expect(rig.radio.status.stack == (text.isEmpty ? "BlueZ" : "BlueZ \(text), \(way)"))
    }
  }

  @Test("The limits of raw HCI on a kernel without the fix of packet counts are reported only if raw HCI is used")
  @LoopActor
  func repair() async throws {
    let missing = KernelRepair.missing(KernelVersion(6, 1, 100), repaired: KernelVersion(6, 1, 150))
    let bus = BusConnection(address: .address("unix:path=/nonexistent"))
    let open = KernelChannel<any RawHCI>.open(FakeRawHCI())
    let cases: [(KernelChannel<any RawHCI>, KernelRepair, Int)] = [
      (open, missing, 1), (open, .present, 0), (.off, missing, 0),
    ]
    for (door, repair, count) in cases {
      let radio = BlueZRadio(
        bus: bus, scheduler: VirtualTime(), doors: KernelChannels(raw: door), repair: repair)
      #expect(radio.status.limits.count == count)
    }
  }

  @Test("Malformed messages of bluetoothd are counted and ignored")
  @LoopActor
  func nonsense() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let (properties, manager) = ("org.freedesktop.DBus.Properties", "org.freedesktop.DBus.ObjectManager")
    func changed(_ interface: String, _ values: DBusValue) -> [DBusValue] {
      [.string(interface), values, .strings([])]
    }
    let nested = DBusValue.dictionary(
      key: "s", value: "a{sv}",
      [DBusEntry(.string("org.bluez.Device1"), .options(["Connected": .string("yes"), "Address": .uint32(7)]))])
    let before = rig.radio.counters.malformed
    rig.fake.emit(
      "/org/bluez/hci0", properties, "PropertiesChanged",
      changed("org.bluez.Adapter1", .options(["Powered": .string("on")])))
    rig.fake.emit("/org/bluez/hci0", properties, "PropertiesChanged", [.string("org.bluez.Adapter1")])
    rig.fake.emit(
      "/org/bluez/hci7", properties, "PropertiesChanged",
      changed("org.bluez.Adapter1", .options(["Powered": .bool(true)])))
    rig.fake.emit(
      "/org/bluez/odd", properties, "PropertiesChanged",
      changed("org.bluez.Device1", .options(["Connected": .bool(true)])))
    rig.fake.emit(
      "/org/bluez/hci0/dev_XX", properties, "PropertiesChanged",
      changed("org.bluez.Device1", .options(["Connected": .bool(true)])))
    rig.fake.emit("/", manager, "InterfacesAdded", [.string("nothing")])
    rig.fake.emit("/", manager, "InterfacesAdded", [.objectPath("/org/bluez/hci0/dev_00_00_00_00_00_09"), nested])
    rig.fake.emit("/", manager, "InterfacesRemoved", [.objectPath("/nowhere"), .uint32(1)])
    try await rig.settle()
    #expect(rig.radio.counters.malformed >= before + 7)
    let traits = rig.radio.status.traits
    #expect(rig.radio.status == RadioStatus(.ready, adapters: ["hci0"], stack: "BlueZ", traits: traits))
    #expect(service.events.all.isEmpty)
    server.close()
  }

  @Test("Signals of a program that does not own org.bluez are ignored")
  @LoopActor
  func impostor() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let other = BusConnection(address: .address(rig.bus.address))
    other.connect()
    try await other.ready()
    other.emit(
      "/org/bluez/hci0", "org.freedesktop.DBus.Properties", "PropertiesChanged",
      [.string("org.bluez.Adapter1"), .options(["Powered": .bool(false)]), .strings([])])
    try await rig.settle()
    #expect(rig.radio.status.state == .ready)
    other.close()
  }
}
