import BlueZ
import Common
import DBus
import HCI
import Journal
import Loop
import Radio
import TestSupport
import Testing

@Suite("Restarts of a scan without results")
struct StoppedScanTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor private static let first = FakePeer("00:AA:03:00:00:01")
  @LoopActor private static let second = FakePeer("00:AA:03:00:00:02")

  /// A rig that scans, and has reported the first peer.
  @LoopActor
  private static func scanning(
    _ rig: Rig, to scanResults: Mailbox<ScanResult>, for services: [BluetoothUUID] = []
  ) async throws -> Registration {
    let scan = rig.radio.scan(for: services) { scanResults.put($0) }
    try await rig.fake.until { rig.fake.isDiscovering() }
    try await rig.settle()
    rig.fake.hear(first)
    if services.isEmpty { _ = try await scanResults.next() } else { try await rig.settle() }
    return scan
  }

  /// Advances time second by second, handling the events of each second.
  @LoopActor
  private static func pass(_ rig: Rig, seconds: Int) async throws {
    for _ in 0..<seconds {
      rig.time.advance(by: .seconds(1))
      try await rig.settle()
    }
  }

  @LoopActor
  private static func restarts(_ rig: Rig) -> Int { rig.fake.calls.all.count { $0 == "StopDiscovery hci0" } }

  @LoopActor
  private static func entries(_ rig: Rig) -> [LogRecord] { rig.entries.all.filter { $0.id == .scanRestarted } }

  @Test(
    "After 30 s without a scan result the discovery is restarted, counted and logged")
  @LoopActor
  func found() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = try await Self.scanning(rig, to: scanResults)
    rig.fake.stopScanning()
    rig.fake.hear(Self.second)
    try await Self.pass(rig, seconds: 29)
    #expect(Self.restarts(rig) == 0 && rig.radio.counters.scanRestarts == 0 && Self.entries(rig).isEmpty)
    try await Self.pass(rig, seconds: 1)
    #expect(rig.fake.calls.all == ["StartDiscovery hci0", "StopDiscovery hci0", "StartDiscovery hci0"])
    #expect(rig.driver.tallies.contains(Tally("ScanRestarts", 1)))
    #expect(Self.entries(rig).map(\.text).allSatisfy { $0.contains("scanning is restarted") })
    #expect(Self.entries(rig).count == 1)
    rig.fake.hear(Self.second)
    #expect(try await scanResults.first { $0.address.description == Self.second.address }.rssi == -60)
    #expect(rig.radio.status.state == .ready)
    scan.cancel()
  }

  @Test("If devices no longer advertise, the scan is restarted at growing intervals and logged once")
  @LoopActor
  func nobodyLeft() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = try await Self.scanning(rig, to: scanResults)
    for (number, pause) in [30, 60, 120, 120].enumerated() {
      try await Self.pass(rig, seconds: pause - 1)
      #expect(Self.restarts(rig) == number)
      try await Self.pass(rig, seconds: 1)
      #expect(Self.restarts(rig) == number + 1)
    }
    #expect(Self.entries(rig).count == 1 && rig.radio.counters.scanRestarts == 4)
    scan.cancel()
    try await Self.pass(rig, seconds: 300)
    #expect(rig.radio.counters.scanRestarts == 4)
  }

  @Test("If no device ever advertised, the scan is not restarted")
  @LoopActor
  func neverAnybody() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scan = rig.radio.scan(for: []) { _ in }
    try await rig.fake.until { rig.fake.isDiscovering() }
    try await rig.settle()
    rig.time.advance(by: .seconds(86_400))
    try await rig.settle()
    #expect(Self.restarts(rig) == 0 && rig.radio.counters.scanRestarts == 0)
    scan.cancel()
  }

  @Test("Scan results that no service requested also show that the scan works")
  @LoopActor
  func others() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = try await Self.scanning(rig, to: scanResults, for: [BluetoothUUID(short: 1)])
    for _ in 0..<10 {
      try await Self.pass(rig, seconds: 20)
      rig.fake.hear(Self.first)
      try await rig.settle()
    }
    #expect(scanResults.all.isEmpty && Self.restarts(rig) == 0)
    rig.fake.stopScanning()
    try await Self.pass(rig, seconds: 30)
    #expect(Self.restarts(rig) == 1)
    scan.cancel()
  }

  @Test("A scan restart that becomes due during a connection attempt is postponed by 5 s")
  @LoopActor
  func connecting() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let scanResults = Mailbox<ScanResult>()
    let scan = try await Self.scanning(rig, to: scanResults)
    let peer = FakePeer.sample("00:AA:03:00:00:01")
    rig.fake.add(peer)
    peer.isDeaf = true
    try await Self.pass(rig, seconds: 25)
    let visitor = Visitor()
    try visitor.connect(with: rig.radio, to: peer)
    _ = try await rig.fake.calls.first { $0.hasPrefix("Connect") }
    try await Self.pass(rig, seconds: 9)
    #expect(Self.restarts(rig) == 0)
    peer.giveUpConnecting()
    _ = try await visitor.end()
    try await Self.pass(rig, seconds: 1)
    #expect(Self.restarts(rig) == 1)
    scan.cancel()
  }

  @Test("While another program is scanning, the second restart stops discovery through the management socket")
  @LoopActor
  func beside() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.isDiscovering = true
    rig.kernel.tell(.discovering(.init(types: 7, isOn: true)))
    let stopped = Mailbox<UInt8>()
    rig.kernel.onStopDiscovery = { types in
      stopped.put(types)
      rig.fake.restartScanning()
    }
    let other = BusConnection(address: .address(rig.bus.address))
    other.connect()
    try await other.ready()
    _ = try await other.call("org.bluez", "/org/bluez/hci0", "org.bluez.Adapter1", "StartDiscovery")
    let scanResults = Mailbox<ScanResult>()
    let scan = try await Self.scanning(rig, to: scanResults)
    rig.fake.stopScanning()
    try await Self.pass(rig, seconds: 30)
    #expect(Self.restarts(rig) == 1 && stopped.all.isEmpty)
    try await Self.pass(rig, seconds: 60)
    #expect(try await stopped.next() == 7)
    #expect(Self.restarts(rig) == 2)
    rig.fake.hear(Self.second)
    _ = try await scanResults.first { $0.address.description == Self.second.address }
    other.close()
    scan.cancel()
  }

  @Test("At a scan restart the kernel's advertisement monitor is removed and added again")
  @LoopActor
  func patterns() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.radio.listen(for: [AdvertisingPattern(type: 9, bytes: [0x7E])])
    try await rig.kernel.until { rig.kernel.monitors[0]?.keys.sorted() == [1] }
    try await rig.settle()
    try await Self.pass(rig, seconds: 100)
    #expect(rig.kernel.monitors[0]?.keys.sorted() == [1])
    rig.kernel.hear([2, 1, 6, 3, 9, 0x41, 0x42], from: BluetoothAddress(7))
    try await rig.settle()
    try await Self.pass(rig, seconds: 29)
    #expect(rig.kernel.monitors[0]?.keys.sorted() == [1])
    try await Self.pass(rig, seconds: 1)
    try await rig.kernel.until { rig.kernel.monitors[0]?.keys.sorted() == [2] }
    #expect(rig.radio.counters.scanRestarts == 1 && Self.entries(rig).count == 1)
  }

  @Test("A report of another controller does not count as a scan result")
  @LoopActor
  func otherController() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.radio.listen(for: [AdvertisingPattern(type: 9, bytes: [0x7E])])
    try await rig.kernel.until { rig.kernel.monitors[0]?.isEmpty == false }
    func tell(_ index: UInt16) {
      let report = AdvertisingReport(
        address: BluetoothAddress(7), kind: .randomAddress, rssi: -60, flags: 4, data: [2, 1, 6])
      rig.kernel.tell(.monitoredDeviceFound(MonitoredReport(monitor: 0, report: report)), of: index)
    }
    tell(0)
    for _ in 0..<3 {
      try await rig.settle()
      try await Self.pass(rig, seconds: 10)
      tell(1)
    }
    try await rig.kernel.until { rig.kernel.monitors[0]?.keys.sorted() == [2] }
    #expect(rig.radio.counters.scanRestarts == 1)
  }
}
