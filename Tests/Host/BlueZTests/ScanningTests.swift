import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Advertisers are sighted through bluetoothd")
struct ScanningTests {
  init() { EventLoop.shared.runInBackground() }

  static let service = BluetoothUUID(short: 1)
  static let uuid = service.description
  static let rest = BluetoothUUID(short: 2).description

  @Test("A scan is a discovery of everything on Bluetooth Low Energy, with all that each report holds")
  @LoopActor
  func discovery() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let sightings = Mailbox<Sighting>()
    let scan = try rig.radio.scan(for: [Self.service]) { sightings.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let filter = try #require(rig.fake.filters.values.first)
    #expect(filter == ["Transport": .string("le"), "DuplicateData": .bool(true), "Pattern": .string("")])
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]], rssi: -50)
    let first = try await sightings.next()
    #expect(first.address.description == peer.address)
    #expect(first.serviceUUIDs == [Self.service])
    #expect(first.serviceData(for: Self.service) == [1])
    #expect(first.rssi == -50)
    scan.cancel()
    try await rig.fake.until { !rig.fake.isDiscovering() }
    #expect(rig.fake.calls.all == ["StartDiscovery hci0", "StopDiscovery hci0"])
  }

  @Test("The two parts of an advertisement are put together, however they come, and told when they change")
  @LoopActor
  func twoParts() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let sightings = Mailbox<Sighting>()
    let scan = try rig.radio.scan(for: [Self.service]) { sightings.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    rig.fake.hear(peer, serviceData: [Self.rest: [2]])
    rig.fake.hear(peer, serviceData: [Self.uuid: [1]], rssi: -70)
    rig.fake.hear(peer, serviceData: [Self.uuid: [1], Self.rest: [2]])
    rig.fake.hear(peer, serviceData: [Self.uuid: [3], Self.rest: [4]])
    _ = try await sightings.first { $0.serviceData(for: Self.service) == [3] }
    #expect(sightings.all.map { $0.serviceData.map(\.bytes) } == [[[1]], [[1], [2]], [[3], [4]]])
    scan.cancel()
  }

  @Test("One whom bluetoothd knows is reported when it is heard again, and others' services are not")
  @LoopActor
  func knownBefore() async throws {
    let rig = try await Rig.ready { fake in
      fake.addAdapter()
      fake.addDevice("00:AA:03:00:00:01", isConnected: false)
    }
    defer { rig.close() }
    let sightings = Mailbox<Sighting>()
    let scan = try rig.radio.scan(for: [Self.service]) { sightings.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(FakePeer("00:AA:03:00:00:02"), uuids: [BluetoothUUID(short: 0x180F).description])
    try await rig.settle()
    #expect(sightings.all.isEmpty)
    rig.fake.hear(FakePeer(), uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    #expect(try await sightings.next().address.description == "00:AA:03:00:00:01")
    scan.cancel()
  }

  @Test("Several scans share the discovery; each hears what it wants, also of those who were heard before it came")
  @LoopActor
  func shared() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let (first, second, all) = (Mailbox<Sighting>(), Mailbox<Sighting>(), Mailbox<Sighting>())
    let one = try rig.radio.scan(for: [Self.service]) { first.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(FakePeer(), uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await first.next()
    let two = try rig.radio.scan(for: [Self.service]) { second.put($0) }
    let three = try rig.radio.scan(for: []) { all.put($0) }
    _ = try await second.next()
    rig.fake.hear(FakePeer("00:AA:03:00:00:02"))
    _ = try await all.first { $0.address.description == "00:AA:03:00:00:02" }
    #expect(first.all.count == 1 && second.all.count == 1 && all.all.count == 2)
    one.cancel()
    two.cancel()
    try await rig.settle()
    #expect(rig.fake.isDiscovering())
    three.cancel()
    try await rig.fake.until { !rig.fake.isDiscovering() }
    #expect(rig.fake.calls.all == ["StartDiscovery hci0", "StopDiscovery hci0"])
  }

  @Test("A scan may be ended from within its own report")
  @LoopActor
  func endedWithin() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let sightings = Mailbox<Sighting>()
    var scan: Registration?
    scan = try rig.radio.scan(for: []) {
      sightings.put($0)
      scan = nil
    }
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(FakePeer())
    rig.fake.hear(FakePeer("00:AA:03:00:00:02"))
    try await rig.fake.until { !rig.fake.isDiscovering() }
    #expect(sightings.all.count == 1)
    #expect(scan == nil)
  }

  @Test("A scan begun early, and one that outlives bluetoothd and the adapter, discovers when it can")
  @LoopActor
  func kept() async throws {
    let rig = try await Rig(prepare: nil)
    defer { rig.close() }
    let sightings = Mailbox<Sighting>()
    let scan = try rig.radio.scan(for: [Self.service]) { sightings.put($0) }
    rig.fake.addAdapter()
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await sightings.next()
    rig.fake.vanish()
    try await rig.reach(.waiting)
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await sightings.next()
    rig.fake.power("hci0", false)
    try await rig.reach(.waiting, "switched off")
    rig.fake.power("hci0", true)
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.removeAdapter()
    try await rig.reach(.waiting, "no Bluetooth adapter")
    rig.fake.addAdapter()
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await sightings.next()
    scan.cancel()
    try await rig.fake.until { !rig.fake.isDiscovering() }
  }

  @Test("A refused discovery shows in the status, and is tried again")
  @LoopActor
  func refused() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [KeepingTests.failed]
    let scan = try rig.radio.scan(for: []) { _ in }
    try await rig.reach(.degraded, "bluetoothd refuses to scan on hci0")
    rig.time.advance(by: .milliseconds(500))
    try await rig.fake.until { rig.fake.isDiscovering() }
    try await rig.reach(.ready)
    scan.cancel()
  }

  @Test("A refused discovery that is no longer wanted leaves the radio ready")
  @LoopActor
  func refusedAndEnded() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [KeepingTests.failed]
    let scan = try rig.radio.scan(for: []) { _ in }
    try await rig.reach(.degraded)
    scan.cancel()
    try await rig.reach(.ready)
  }

  @Test("A discovery that bluetoothd has from before is stopped and begun anew")
  @LoopActor
  func inProgress() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [DBusError(name: "org.bluez.Error.InProgress", message: "Operation already in progress")]
    let scan = try rig.radio.scan(for: []) { _ in }
    try await rig.fake.until { rig.fake.isDiscovering() }
    #expect(rig.fake.calls.all == ["StartDiscovery hci0", "StopDiscovery hci0", "StartDiscovery hci0"])
    scan.cancel()
  }

  @Test("Reports that make no sense are counted, and the rest of them is told")
  @LoopActor
  func malformed() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let sightings = Mailbox<Sighting>()
    let scan = try rig.radio.scan(for: [Self.service]) { sightings.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await sightings.next()
    let path = rig.fake.devicePath(peer.address)
    for properties: [String: DBusValue] in [
      ["ServiceData": .string("none")], ["RSSI": .string("loud")], ["UUIDs": .strings([Self.uuid, "zero"])],
      ["ServiceData": .dictionary(key: "s", value: "v", [DBusEntry(.string("x"), .variant(.bytes([])))])],
      ["Name": .string(String(repeating: "long", count: 100))],
    ] {
      rig.fake.emit(
        path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
        [.string("org.bluez.Device1"), .options(properties), .strings([])])
    }
    rig.fake.hear(peer, serviceData: [Self.rest: [2]])
    #expect(try await sightings.next().serviceData.map(\.bytes) == [[1], [2]])
    #expect(rig.radio.counters.malformed == 5)
    scan.cancel()
  }
}
