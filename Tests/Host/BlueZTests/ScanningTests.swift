import BlueZ
import Common
import DBus
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Scanning through bluetoothd")
struct ScanningTests {
  init() { EventLoop.shared.runInBackground() }

  static let service = BluetoothUUID(short: 1)
  static let uuid = service.description
  static let rest = BluetoothUUID(short: 2).description

  @Test("A scan is an LE discovery without a filter for services, and a scan result has all fields")
  @LoopActor
  func discovery() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = rig.radio.scan(for: [Self.service]) { scanResults.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let filter = try #require(rig.fake.filters.values.first)
    #expect(filter == ["Transport": .string("le"), "DuplicateData": .bool(true), "Pattern": .string("")])
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]], rssi: -50)
    let first = try await scanResults.next()
    #expect(first.address.description == peer.address)
    #expect(first.serviceUUIDs == [Self.service])
    #expect(first.serviceData(for: Self.service) == [1])
    #expect(first.rssi == -50)
    scan.cancel()
    try await rig.fake.until { !rig.fake.isDiscovering() }
    #expect(rig.fake.calls.all == ["StartDiscovery hci0", "StopDiscovery hci0"])
  }

  @Test("Advertising data and scan response are merged, and each change is reported")
  @LoopActor
  func twoParts() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = rig.radio.scan(for: [Self.service]) { scanResults.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    rig.fake.hear(peer, serviceData: [Self.rest: [2]])
    rig.fake.hear(peer, serviceData: [Self.uuid: [1]], rssi: -70)
    rig.fake.hear(peer, serviceData: [Self.uuid: [1], Self.rest: [2]])
    rig.fake.hear(peer, serviceData: [Self.uuid: [3], Self.rest: [4]])
    _ = try await scanResults.first { $0.serviceData(for: Self.service) == [3] }
    #expect(
      scanResults.all.map { $0.serviceData.map(\.bytes) } == [
        [[1]], [[1], [2]], [[1], [2]], [[1], [2]], [[3], [4]],
      ])
    #expect(scanResults.all.map(\.rssi) == [-60, -60, -70, -60, -60])
    scan.cancel()
  }

  @Test("A device already known to bluetoothd is reported when it is received, unless it lacks the service")
  @LoopActor
  func knownBefore() async throws {
    let rig = try await Rig.ready { fake in
      fake.addAdapter()
      fake.addDevice("00:AA:03:00:00:01", isConnected: false)
    }
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = rig.radio.scan(for: [Self.service]) { scanResults.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(FakePeer("00:AA:03:00:00:02"), uuids: [BluetoothUUID(short: 0x180F).description])
    try await rig.settle()
    #expect(scanResults.all.isEmpty)
    rig.fake.hear(FakePeer(), uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    #expect(try await scanResults.next().address.description == "00:AA:03:00:00:01")
    scan.cancel()
  }

  @Test("A device that bluetoothd has forgotten is reported for the adapter in use")
  @LoopActor
  func forgotten() async throws {
    let rig = try await Rig.ready { fake in
      fake.addAdapter()
      fake.addAdapter("hci1")
    }
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = rig.radio.scan(for: [Self.service]) { scanResults.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let others = rig.fake.addDevice("00:AA:03:00:00:02", on: "hci1", isConnected: false)
    rig.fake.removeDevice(others)
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid])
    _ = try await scanResults.next()
    rig.fake.removeDevice(rig.fake.devicePath(peer.address, on: peer.adapter))
    #expect(try await rig.radio.forgotten.next().description == peer.address)
    scan.cancel()
  }

  @Test("The scan filter may change during a discovery, and known advertisers are then reported again")
  @LoopActor
  func widened() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let (first, all) = (Mailbox<ScanResult>(), Mailbox<ScanResult>())
    let one = rig.radio.scan(for: [Self.service]) { first.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let (wanted, other) = (FakePeer(), FakePeer("00:AA:03:00:00:02"))
    rig.fake.hear(wanted, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await first.next()
    let two = rig.radio.scan(for: []) { all.put($0) }
    rig.fake.hear(other)
    #expect(try await all.next().address.description == other.address)
    one.cancel()
    rig.fake.hear(wanted, serviceData: [Self.rest: [2]])
    #expect(try await all.next().serviceData.map(\.bytes) == [[1], [2]])
    #expect(first.all.count == 1)
    #expect(rig.fake.isDiscovering())
    two.cancel()
    try await rig.fake.until { !rig.fake.isDiscovering() }
    #expect(rig.fake.calls.all == ["StartDiscovery hci0", "StopDiscovery hci0"])
  }

  @Test("Manufacturer data is reported, and stays in the scan result after reports without it")
  @LoopActor
  func manufacturerData() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = rig.radio.scan(for: []) { scanResults.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.hear(peer, manufacturerData: [0xFFFF: [4, 5], 0x004C: [2]])
    let both: [AdvertisingData.ManufacturerData] = [
      .init(company: 0x4C, bytes: [2]), .init(company: 0xFFFF, bytes: [4, 5]),
    ]
    #expect(try await scanResults.next().manufacturerData == both)
    rig.fake.hear(peer, serviceData: [Self.rest: [2]])
    #expect(try await scanResults.next().manufacturerData == both)
    scan.cancel()
  }

  @Test("Packets are read from the management socket for the adapter in use, only while a program wants them")
  @LoopActor
  func packets() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    #expect(rig.driver.seesPackets)
    func found(_ flags: UInt32, _ kind: HCI.AddressKind = .randomAddress, rssi: Int8? = -70, on index: UInt16 = 0) {
      rig.kernel.tell(
        .deviceFound(
          AdvertisingReport(address: BluetoothAddress(7), kind: kind, rssi: rssi, flags: flags, data: [2, 1, 6])),
        of: index)
    }
    found(1 << 2)
    try await rig.settle()
    rig.radio.listen(for: [])
    try await rig.fake.until { rig.fake.isDiscovering() }
    found(0, on: 1)
    found(0, .classic)
    found(1 << 2)
    found(1 << 5, .publicAddress, rssi: nil)
    found(0)
    _ = try await rig.radio.packets.first { $0.kind == .unknown }
    func packet(_ kind: AdvertisingPacket.Kind, _ addressKind: AdvertisingPacket.AddressKind, _ rssi: Int?)
      -> AdvertisingPacket
    {
      AdvertisingPacket(
        address: BluetoothAddress(7), addressKind: addressKind, kind: kind, rssi: rssi, time: .zero, data: [2, 1, 6])
    }
    let heard = rig.radio.packets.all.map { heard in
      var heard = heard
      heard.time = .zero
      return heard
    }
    #expect(
      heard == [
        packet(.nonConnectable, .randomAddress, -70), packet(.scanResponse, .publicAddress, nil),
        packet(.unknown, .randomAddress, -70),
      ])
    rig.radio.listen(for: nil)
    try await rig.fake.until { !rig.fake.isDiscovering() }
    let blind = try await Rig.ready()
    defer { blind.close() }
    #expect(!blind.driver.seesPackets)
  }

  @Test("A scan can be cancelled in its own handler")
  @LoopActor
  func endedWithin() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    var scan: Registration?
    scan = rig.radio.scan(for: []) {
      scanResults.put($0)
      scan = nil
    }
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(FakePeer())
    rig.fake.hear(FakePeer("00:AA:03:00:00:02"))
    try await rig.fake.until { !rig.fake.isDiscovering() }
    #expect(scanResults.all.count == 1)
    #expect(scan == nil)
  }

  @Test("A scan begins when bluetoothd starts late, and continues after outages of bluetoothd and the adapter")
  @LoopActor
  func kept() async throws {
    let rig = try await Rig(prepare: nil)
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = rig.radio.scan(for: [Self.service]) { scanResults.put($0) }
    rig.fake.addAdapter()
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await scanResults.next()
    rig.fake.vanish()
    try await rig.reach(.waiting)
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await scanResults.next()
    rig.fake.power("hci0", false)
    try await rig.reach(.waiting, "switched off")
    rig.fake.power("hci0", true)
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.removeAdapter()
    try await rig.reach(.waiting, "no Bluetooth adapter")
    rig.fake.addAdapter()
    try await rig.fake.until { rig.fake.isDiscovering() }
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await scanResults.next()
    scan.cancel()
    try await rig.fake.until { !rig.fake.isDiscovering() }
  }

  @Test(
    "A discovery that bluetoothd refuses is reported, and repeated after up to 2 s, later up to 30 s"
  )
  @LoopActor
  func refused() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let waits = [500, 1000, 2000, 2000, 2000, 2000, 2000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    rig.fake.refusals = Array(repeating: KeepingTests.failed, count: waits.count)
    let scan = rig.radio.scan(for: []) { _ in }
    try await rig.reach(.degraded, "bluetoothd refuses to scan on hci0")
    for (index, wait) in waits.enumerated() {
      rig.time.advance(by: .milliseconds(wait - 1))
      try await rig.settle()
      #expect(rig.fake.calls.all.count == index + 1 && !rig.fake.isDiscovering())
      rig.time.advance(by: .milliseconds(1))
      while rig.fake.calls.all.count < index + 2 { _ = try await rig.fake.calls.next() }
      // The answer to the last command has been handled as well.
      try await rig.settle()
    }
    try await rig.fake.until { rig.fake.isDiscovering() }
    try await rig.reach(.ready)
    scan.cancel()
  }

  @Test("The radio returns to ready when a refused discovery is no longer needed")
  @LoopActor
  func refusedAndEnded() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [KeepingTests.failed]
    let scan = rig.radio.scan(for: []) { _ in }
    try await rig.reach(.degraded)
    scan.cancel()
    try await rig.reach(.ready)
  }

  @Test("A discovery that was active before the service started is stopped and started again")
  @LoopActor
  func inProgress() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [DBusError(name: "org.bluez.Error.InProgress", message: "Operation already in progress")]
    let scan = rig.radio.scan(for: []) { _ in }
    try await rig.fake.until { rig.fake.isDiscovering() }
    #expect(rig.fake.calls.all == ["StartDiscovery hci0", "StopDiscovery hci0", "StartDiscovery hci0"])
    scan.cancel()
  }

  @Test(
    "While another program is scanning, our discovery is restarted at once, after 1 s, and then every 2 s"
  )
  @LoopActor
  func formerDiscovery() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let waits = [1000, 2000, 2000, 2000, 2000, 2000, 2000, 4000]
    let busy = DBusError(name: "org.bluez.Error.InProgress", message: "Operation already in progress")
    rig.fake.refusals = Array(repeating: busy, count: waits.count + 1)
    let scan = rig.radio.scan(for: []) { _ in }
    try await rig.reach(.degraded, "bluetoothd refuses to scan on hci0")
    let starts = { rig.fake.calls.all.filter { $0.hasPrefix("StartDiscovery") }.count }
    for (index, wait) in waits.enumerated() {
      rig.time.advance(by: .milliseconds(wait - 1))
      try await rig.settle()
      #expect(starts() == index + 2 && !rig.fake.isDiscovering())
      rig.time.advance(by: .milliseconds(1))
      while starts() < index + 3 { _ = try await rig.fake.calls.next() }
      try await rig.settle()
    }
    try await rig.reach(.ready)
    #expect(rig.fake.isDiscovering())
    scan.cancel()
  }

  @Test("Malformed device properties are counted, and the others are reported")
  @LoopActor
  func malformed() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = rig.radio.scan(for: [Self.service]) { scanResults.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    let peer = FakePeer()
    rig.fake.hear(peer, uuids: [Self.uuid], serviceData: [Self.uuid: [1]])
    _ = try await scanResults.next()
    let path = rig.fake.devicePath(peer.address)
    for properties: [String: DBusValue] in [
      ["ServiceData": .string("none")], ["RSSI": .string("loud")], ["UUIDs": .strings([Self.uuid, "zero"])],
      ["ServiceData": .dictionary(key: "s", value: "v", [DBusEntry(.string("x"), .variant(.bytes([])))])],
      ["Name": .string(String(repeating: "long", count: 100))],
    ] {
      rig.fake.signal(properties, of: path)
    }
    rig.fake.hear(peer, serviceData: [Self.rest: [2]])
    _ = try await scanResults.first { $0.serviceData.map(\.bytes) == [[1], [2]] }
    #expect(rig.radio.counters.malformed == 5)
    scan.cancel()
  }
}
