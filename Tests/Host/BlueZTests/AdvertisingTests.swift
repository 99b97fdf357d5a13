import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Advertising through bluetoothd")
struct AdvertisingTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("An advertisement for bluetoothd has the properties of LEAdvertisement1, with short UUIDs and milliseconds")
  @LoopActor
  func properties() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let registration = try await rig.advertise()
    let advertisement = try #require(rig.fake.advertisements.first)
    #expect(advertisement.path == "/org/earshot/adv0")
    let values = advertisement.values
    #expect(values["Type"] == .string("peripheral"))
    #expect(values["ServiceUUIDs"] == .strings(["ab29"]))
    #expect(values["ServiceData"]?["ab29"]?.asBytes == Array(0..<20))
    #expect(values["ScanResponseServiceData"]?["ab2a"]?.asBytes == Array(0..<27))
    #expect(values["Discoverable"] == .bool(true))
    #expect(values["MinInterval"] == .uint32(100))
    #expect(values["MaxInterval"] == .uint32(100))
    #expect(values.count == 7)
    registration.cancel()
    try await rig.fake.until { rig.fake.advertisements.isEmpty }
  }

  @Test("Long UUIDs, a name, absent flags and odd intervals are passed to bluetoothd in the form that it expects")
  @LoopActor
  func otherProperties() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let uuid = try #require(BluetoothUUID("12345678-9abc-def0-1234-56789abcdef0"))
    let registration = try await rig.advertise(
      Advertisement(
        data: AdvertisingData(serviceUUIDs: [uuid], localName: "kiosk"), scanResponse: AdvertisingData(),
        interval: .milliseconds(1)))
    let values = try #require(rig.fake.advertisements.first?.values)
    #expect(values["ServiceUUIDs"] == .strings(["12345678-9abc-def0-1234-56789abcdef0"]))
    #expect(values["LocalName"] == .string("kiosk"))
    #expect(values["Discoverable"] == nil)
    #expect(values["MinInterval"] == .uint32(20))
    #expect(values.keys.allSatisfy { !$0.hasPrefix("ScanResponse") })
    registration.cancel()
  }

  @Test("A local name that does not fit the scan response is left out, and the radio status reports this")
  @LoopActor
  func noRoomForName() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    var advertisement = Advertisement.sample
    advertisement.data.structures = [.flags(0x02), .localName("a")]
    let registration = try await rig.advertise(advertisement)
    #expect(rig.fake.advertisements.first?.values["LocalName"] == nil)
    try await rig.reach(.degraded, "missing or full")
    advertisement.kind = .connectable(scanResponse: AdvertisingData())
    rig.driver.advertise(advertisement, in: 0)
    try await rig.fake.until { rig.fake.advertisements.first?.values["LocalName"] == .string("a") }
    try await rig.reach(.ready)
    registration.cancel()
  }

  @Test(
    "An AD structure that bluetoothd cannot advertise is reported in the radio status with advice",
    arguments: [AdvertisingStructure.shortenedName("ab"), .other(0x0A, [0]), .other(0x16, [1, 2, 3])])
  @LoopActor
  func inexpressible(structure: AdvertisingStructure) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let registration = try await rig.advertise(Advertisement(data: AdvertisingData([structure])))
    let reason = try await rig.reach(.degraded).reason
    #expect(reason.contains("type 0x\(String(structure.type, radix: 16))") && reason.contains("CAP_NET_ADMIN"))
    registration.cancel()
    try await rig.reach(.ready)
  }

  @Test("A new advertisement in a slot replaces the previous one at the same D-Bus object path")
  @LoopActor
  func exchanged() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let registration = try await rig.advertise()
    var other = Advertisement.sample
    other.data.structures[2] = .serviceData(BluetoothUUID(short: 0xAB29), [9])
    rig.driver.advertise(other, in: 0)
    try await rig.fake.until { rig.fake.advertisements.first?.values["ServiceData"]?["ab29"]?.asBytes == [9] }
    try await rig.settle()
    #expect(rig.fake.advertisements.map(\.path) == ["/org/earshot/adv0"])
    #expect(rig.fake.calls.all.count == 3)
    rig.driver.advertise(other, in: 0)
    try await rig.settle()
    #expect(rig.fake.calls.all.count == 3)
    registration.cancel()
  }

  @Test("The number of slots is the controller's, minus the instances of other programs, and includes our own")
  @LoopActor
  func slots() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    _ = try await rig.radio.told.first { $0 == .slots(3) }
    var registrations: [Registration] = []
    for _ in 0..<3 { registrations.append(try await rig.advertise()) }
    registrations.removeLast()
    try await rig.fake.until { rig.fake.advertisements.count == 2 }
    try await rig.settle()
    #expect(rig.driver.advertisingSlots == 3)
    rig.fake.setActiveInstances(1)
    _ = try await rig.radio.told.first { $0 == .slots(2) }
    rig.fake.setActiveInstances(0)
    _ = try await rig.radio.told.first { $0 == .slots(3) }
    let slots = rig.radio.told.all.filter { if case .slots = $0 { true } else { false } }
    #expect(slots == [.slots(3), .slots(2), .slots(3)])
    registrations = []
  }

  @Test("An advertisement is registered with bluetoothd again when a peer connects or disconnects")
  @LoopActor
  func afterConnecting() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let registration = try await rig.advertise()
    let device = rig.fake.addDevice()
    #expect(rig.fake.advertisements.first?.isOnAir == false)
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    try await rig.settle()
    rig.fake.addDevice("00:AA:02:00:00:02")
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    try await rig.settle()
    let calls = rig.fake.calls.all.count
    #expect(calls == 5)
    rig.fake.setConnected(device, false)
    try await rig.fake.until { rig.fake.calls.all.count == 7 && rig.fake.advertisements.first?.isOnAir == true }
    // A peer that bluetoothd adds and removes without a connection causes no link event.
    let seen = rig.fake.addDevice("00:AA:02:00:00:03", isConnected: false)
    rig.fake.removeDevice(seen)
    try await rig.settle()
    #expect(rig.fake.calls.all.count == 7)
    #expect(rig.fake.advertisements.count == 1)
    registration.cancel()
    try await rig.fake.until { rig.fake.advertisements.isEmpty }
  }

  @Test("A peer that connects while an advertisement is being registered causes one more registration")
  @LoopActor
  func connectingMeanwhile() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.holdsAnswers = true
    let registration = try rig.radio.advertise(.sample)
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    rig.fake.addDevice()
    rig.fake.addDevice("00:AA:02:00:00:02")
    try await rig.settle()
    #expect(rig.fake.calls.all.count == 1)
    rig.fake.releaseAnswers()
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    try await rig.settle()
    #expect(rig.fake.calls.all.count == 3)
    registration.cancel()
  }

  @Test("A fourth advertisement that bluetoothd refuses is reported with advice, and registered when a slot is free")
  @LoopActor
  func fourth() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    var registrations: [Registration] = []
    for _ in 0..<3 { registrations.append(try await rig.advertise()) }
    #expect(
      Set(rig.fake.advertisements.map(\.path.string)) == [
        "/org/earshot/adv0", "/org/earshot/adv1", "/org/earshot/adv2",
      ])
    registrations.append(try rig.radio.advertise(.sample))
    let status = try await rig.reach(.degraded, "Maximum advertisements reached")
    #expect(status.reason.contains("no capacity for another advertisement"))
    registrations[1].cancel()
    try await rig.fake.until { rig.fake.advertisements.count == 2 }
    rig.time.advance(by: .milliseconds(500))
    try await rig.reach(.ready)
    #expect(rig.fake.advertisements.count == 3)
    registrations = []
    try await rig.fake.until { rig.fake.advertisements.isEmpty }
  }

  @Test("The radio returns to ready when the refused advertisement is cancelled")
  @LoopActor
  func givenUp() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [KeepingTests.failed]
    let registration = try rig.radio.advertise(.sample)
    try await rig.reach(.degraded, "refuses to advertise on hci0")
    registration.cancel()
    try await rig.reach(.ready)
    rig.time.advance(by: .seconds(60))
    try await rig.settle()
    #expect(rig.fake.calls.all.count == 1)
  }

  @Test("An advertisement that bluetoothd releases is registered again after 0.5 s")
  @LoopActor
  func released() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let registration = try await rig.advertise()
    let advertisement = try #require(rig.fake.advertisements.first)
    try await rig.fake.release(advertisement)
    #expect(rig.fake.advertisements.isEmpty)
    rig.time.advance(by: .milliseconds(500))
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    registration.cancel()
  }

  @Test("After a restart of bluetoothd the advertisement is registered again")
  @LoopActor
  func orderlyRestart() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let registration = try await rig.advertise()
    try await rig.fake.stop()
    try await rig.reach(.waiting)
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    registration.cancel()
  }

  @Test(
    "A bluetoothd version that cannot set scan responses is reported if an advertisement needs one",
    arguments: [
      ("5.66-1+deb12u2", true), ("5.79", true), ("5.80", false), ("5.82", false), ("6.0", false), ("", false),
    ])
  @LoopActor
  func oldVersion(text: String, isTooOld: Bool) async throws {
    let rig = try await Rig(version: BlueZVersion(text))
    defer { rig.close() }
    try await rig.reach(.ready)
    let registration = try await rig.advertise()
    #expect(rig.radio.status.state == (isTooOld ? .degraded : .ready))
    if isTooOld { #expect(rig.radio.status.reason.contains("install BlueZ 5.80 or newer")) }
    registration.cancel()
    #expect(rig.radio.status.state == .ready)
  }

  @Test(
    "The BlueZ version is parsed from the version strings of Linux distributions",
    arguments: [
      ("5.66", BlueZVersion(5, 66)), ("5.66-1+deb12u2", BlueZVersion(5, 66)), ("5.82.1", BlueZVersion(5, 82)),
      ("", nil), ("5", nil), ("five", nil), ("5.", nil), (".5", nil), ("v5.66", nil),
    ])
  func versions(text: String, version: BlueZVersion?) {
    #expect(BlueZVersion(text) == version)
  }
}

extension Advertisement {
  /// A sample advertisement whose data and scan response use all 31 bytes.
  static let sample = Advertisement(
    data: AdvertisingData(
      flags: 0x02, serviceUUIDs: [BluetoothUUID(short: 0xAB29)],
      serviceData: [.init(service: BluetoothUUID(short: 0xAB29), bytes: Array(0..<20))]),
    scanResponse: AdvertisingData(
      serviceData: [.init(service: BluetoothUUID(short: 0xAB2A), bytes: Array(0..<27))]))
}
