import BlueZ
import Common
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Broadcasting without the management socket")
struct DegradedTests {
  init() { EventLoop.shared.runInBackground() }

  private static let message = Advertisement(
    .nonConnectable(AdvertisingSetID(1)),
    data: AdvertisingData([.flags(0x06), .localName("~0a"), .manufacturerData(0xFFFF, [1, 2]), .other(0x26, [7])]))

  @Test("Without the management socket, advertising sets and packet patterns are refused with advice")
  @LoopActor
  func withheld() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    #expect(rig.driver.deafness?.contains("CAP_NET_ADMIN") == true)
    rig.driver.advertise(Self.message, in: 0)
    let reason = try await rig.reach(.degraded).reason
    #expect(reason.contains("CAP_NET_ADMIN") && reason.contains("Degraded=yes in [Broadcast]"))
    try await rig.settle()
    #expect(rig.fake.advertisements.isEmpty && rig.radio.airings.all.isEmpty)
    rig.driver.advertise(nil, in: 0)
    try await rig.reach(.ready)
  }

  @Test("If allowed, bluetoothd advertises sets by their names, and the radio status reports the differences")
  @LoopActor
  func sent() async throws {
    let rig = try await Rig.ready(isDegradable: true)
    defer { rig.close() }
    let registration = try await rig.advertise(Self.message)
    let values = try #require(rig.fake.advertisements.first?.values)
    #expect(
      Set(values.keys) == [
        "Type", "LocalName", "Discoverable", "ManufacturerData", "Data", "MinInterval", "MaxInterval",
      ])
    #expect(values["Type"] == .string("peripheral") && values["LocalName"] == .string("~0a"))
    #expect(
      values["ManufacturerData"]
        == .dictionary(key: "q", value: "v", [DBusEntry(.uint16(0xFFFF), .variant(.bytes([1, 2])))]))
    #expect(values["Data"] == .dictionary(key: "y", value: "v", [DBusEntry(.byte(0x26), .variant(.bytes([7])))]))
    _ = try await rig.radio.airings.first { $0.advertisement == Self.message }
    let reason = try await rig.reach(.degraded).reason
    #expect(reason.contains("scan responses") && reason.contains("CAP_NET_ADMIN"))
    registration.cancel()
    _ = try await rig.radio.airings.first { $0.advertisement == nil }
    try await rig.reach(.ready)
  }

  @Test("A set that replaces another one is reported as sent when bluetoothd has registered it")
  @LoopActor
  func displacedMeanwhile() async throws {
    let rig = try await Rig.ready(isDegradable: true)
    defer { rig.close() }
    let other = Advertisement(
      .nonConnectable(AdvertisingSetID(2)), data: AdvertisingData([.flags(0x06), .localName("~1b")]))
    rig.driver.advertise(Self.message, in: 0)
    rig.driver.advertise(other, in: 0)
    _ = try await rig.radio.airings.first { $0.advertisement == other }
    #expect(rig.fake.advertisements.first?.values["LocalName"] == .string("~1b"))
    try await rig.settle()
    #expect(rig.radio.airings.all.map(\.advertisement) == [other])
  }

  @Test("A set without a name is registered at bluetoothd with type broadcast and manufacturer data")
  @LoopActor
  func beacon() async throws {
    let rig = try await Rig.ready(isDegradable: true)
    defer { rig.close() }
    let beacon = Advertisement(
      .nonConnectable(AdvertisingSetID(1)),
      data: AdvertisingData([.flags(0x06), .manufacturerData(0x004C, [2, 0x15])]))
    let registration = try await rig.advertise(beacon)
    let values = try #require(rig.fake.advertisements.first?.values)
    #expect(Set(values.keys) == ["Type", "ManufacturerData", "MinInterval", "MaxInterval"])
    #expect(values["Type"] == .string("broadcast"))
    registration.cancel()
  }

  @Test("A name or manufacturer data reported by bluetoothd is delivered as a packet if a pattern matches")
  @LoopActor
  func heard() async throws {
    let rig = try await Rig.ready(isDegradable: true)
    defer { rig.close() }
    #expect(rig.driver.seesPackets && rig.driver.status.state == .ready)
    rig.radio.listen(for: [
      AdvertisingPattern(type: 9, bytes: [0x7E]), AdvertisingPattern(type: 0xFF, bytes: [0x4C, 0x00]),
    ])
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.add(peer)
    rig.fake.hear(peer, rssi: -50)
    rig.fake.hear(peer, name: "~0a", rssi: -50)
    rig.fake.hear(peer, name: "a~0", rssi: -50)
    rig.fake.hear(peer, manufacturerData: [0xFFFF: [1], 0x004C: [2, 0x15]])
    _ = try await rig.radio.packets.first { $0.data.contains(0x4C) }
    let heard = rig.radio.packets.all
    #expect(heard.map(\.data) == [[4, 9, 0x7E, 0x30, 0x61], [5, 0xFF, 0x4C, 0, 2, 0x15]])
    #expect(heard.first?.kind == .unknown && heard.first?.rssi == -50)
    let reason = try await rig.reach(.degraded, "reports only changes of advertisements").reason
    #expect(rig.driver.status.traits.packetShortfall == reason)
    rig.radio.listen(for: nil)
    try await rig.reach(.ready)
  }
}
