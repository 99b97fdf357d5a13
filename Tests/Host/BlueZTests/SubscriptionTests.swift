import BlueZ
import Common
import DBus
import HCI
import Loop
import Radio
import TestSupport
import Testing

/// CCCD writes that bluetoothd does not report, and the values that these clients get. Facts: bluez.md section 14.
@Suite("Client characteristic configurations of subscribers")
struct SubscriptionTests {
  init() { EventLoop.shared.runInBackground() }

  private static let addresses = [ExactnessTests.first, ExactnessTests.second]
  private static let hear = ExactnessTests.hear
  private static let (old, new) = (BlueZVersion(5, 66), BlueZVersion(5, 82))

  /// A radio with connected clients, whose writes reach bluetoothd and the kernel.
  @LoopActor
  private final class Bench {
    let rig: Rig
    let raw = FakeRawHCI()
    let service = Service()
    let server: DriverRig.Server
    let devices: [ObjectPath]
    var links: [LinkID] = []

    init(_ version: BlueZVersion, _ reach: GATTCharacteristic.Reach = .exact, clients: Int = 1) async throws {
      rig = try await Rig(version: version, doors: KernelChannels(raw: .open(raw)))
      try await rig.reach(.ready)
      server = try await rig.serve(service, Service.application(reach: reach))
      raw.links = addresses.prefix(clients).enumerated().map { index, address in
        HCILink(handle: UInt16(0x40 + index), address: BluetoothAddress(address) ?? BluetoothAddress(0))
      }
      devices = addresses.prefix(clients).map { [rig] in rig.fake.addDevice($0) }
      for _ in devices { links.append(try await service.link()) }
    }

    /// Starts a client's write of its CCCD, without waiting for the result.
    func begin(_ configuration: ClientConfiguration, by client: Int = 0) {
      guard let handle = rig.fake.applications.last?[Service.hear]?.handle else { return }
      raw.write(configuration, to: handle + 1, by: raw.links[client].address)
      rig.fake.subscribe(
        Service.hear, configuration != .nothing, by: devices[client], isIndicated: configuration == .indications
      ) { _ in }
    }

    /// Lets a client write its CCCD once per value, each after the previous write has taken effect.
    func write(_ configurations: ClientConfiguration..., by client: Int = 0) async throws {
      for configuration in configurations {
        begin(configuration, by: client)
        try await rig.settle()
        try await rig.settle()
      }
    }

    @discardableResult
    func notify(_ value: UInt8, to client: Int = 0) -> Delivery {
      server.notify([value], of: hear, to: links[client])
    }

    /// The values that bluetoothd sent to a client: `n` before a notification's value, `i` before an indication's,
    /// and `r` for a value by raw HCI.
    func heard(_ client: Int = 0) -> [String] {
      rig.fake.notified.all.filter { $0.client == devices[client] }.map {
        ($0.isIndication ? "i" : "n") + "\($0.value[0])"
      }
        + raw.controller.received.all.filter { $0.peer == raw.links[client].address }.map { "r\($0.payload.last ?? 0)" }
    }

    /// Waits until bluetoothd and the radio have handled all pending messages.
    func settle() async throws {
      for _ in 0..<4 { try await rig.settle() }
    }

    func close() {
      server.close()
      rig.close()
    }
  }

  @Test(
    "With BlueZ 5.66 a client that changed to indications and unsubscribed gets values by raw HCI")
  @LoopActor
  func unsubscribedAfterChange() async throws {
    let bench = try await Bench(Self.old)
    defer { bench.close() }
    try await bench.write(.notifications, .indications, .nothing)
    #expect(bench.notify(1) == Delivery(accepted: [bench.links[0]]))
    try await bench.settle()
    #expect(bench.heard() == ["r1"])
  }

  @Test("With BlueZ 5.66 a client that enables indications gets them, whatever earlier clients configured")
  @LoopActor
  func indicatedAfterLeak() async throws {
    let bench = try await Bench(Self.old)
    defer { bench.close() }
    try await bench.write(.notifications, .indications, .nothing)
    for (number, configuration) in [ClientConfiguration.indications, .notifications, .nothing, .indications]
      .enumerated()
    {
      try await bench.write(configuration)
      bench.notify(UInt8(number))
      try await bench.settle()
    }
    #expect(bench.heard() == ["i0", "n1", "i3", "r2"])
  }

  @Test("With BlueZ 5.66 a client gets indications while others are connected, unless those subscribe too")
  @LoopActor
  func indicatedBesideOthers() async throws {
    let bench = try await Bench(Self.old, clients: 2)
    defer { bench.close() }
    try await bench.write(.indications)
    bench.notify(1)
    bench.notify(2, to: 1)
    try await bench.settle()
    #expect(bench.heard() == ["i1"] && bench.heard(1) == ["r2"])
    try await bench.write(.notifications, by: 1)
    bench.notify(3)
    bench.notify(4, to: 1)
    try await bench.settle()
    #expect(bench.heard() == ["i1", "r3"] && bench.heard(1) == ["r2", "r4"], "no value reaches the other client")
    try await bench.write(.nothing, by: 1)
    bench.notify(5)
    try await bench.settle()
    #expect(bench.heard() == ["i1", "i5", "r3"] && bench.heard(1) == ["r2", "r4"])
  }

  @Test("With BlueZ 5.66 a client that unsubscribes while a value is sent gets this value once")
  @LoopActor
  func unsubscribesMeanwhile() async throws {
    let bench = try await Bench(Self.old)
    defer { bench.close() }
    try await bench.write(.notifications)
    // bluetoothd has accepted the write, and its StopNotify is still unread when the value is sent.
    bench.rig.fake.subscribe(Service.hear, false) { _ in }
    #expect(bench.notify(1) == Delivery(accepted: [bench.links[0]]))
    try await bench.settle()
    #expect(bench.heard() == ["r1"])
    #expect(bench.rig.radio.counters.repeatedNotifications == 1)
    bench.notify(2)
    try await bench.settle()
    #expect(bench.heard() == ["r1", "r2"])
  }

  @Test("With BlueZ 5.82 a client that unsubscribes before AcquireNotify is answered gets values by raw HCI")
  @LoopActor
  func forgottenSocket() async throws {
    let bench = try await Bench(Self.new)
    defer { bench.close() }
    bench.begin(.notifications)
    bench.begin(.nothing)
    try await bench.settle()
    bench.notify(1)
    try await bench.settle()
    #expect(bench.heard() == ["r1"])
    try await bench.write(.notifications)
    bench.notify(2)
    try await bench.settle()
    #expect(bench.heard() == ["n2", "r1"])
  }

  @Test("With BlueZ 5.82 a client that subscribes again before AcquireNotify is answered gets values")
  @LoopActor
  func twoCallsAtOnce() async throws {
    let bench = try await Bench(Self.new, .subscribers)
    defer { bench.close() }
    for configuration in [ClientConfiguration.notifications, .nothing, .notifications] { bench.begin(configuration) }
    try await bench.settle()
    bench.notify(1)
    try await bench.settle()
    #expect(bench.heard() == ["n1"])
  }

  @Test(
    "With BlueZ 5.82 a subscription that ends before AcquireNotify is answered is reported as ended after 1 s",
    arguments: [true, false])
  @LoopActor
  func forgottenSubscription(isExact: Bool) async throws {
    let bench = try await Bench(Self.new, isExact ? .exact : .subscribers)
    defer { bench.close() }
    let told = bench.rig.radio.told
    func ends() -> Int { told.all.count { $0 == .used(bench.server.number, bench.links[0], .unsubscribed(Self.hear)) } }
    bench.begin(.notifications)
    bench.begin(.nothing)
    try await bench.settle()
    #expect(ends() == 0)
    bench.rig.time.advance(by: .seconds(1))
    #expect(ends() == 1)
    #expect((bench.notify(1).unreachable == bench.links) == !isExact)
    // A client that subscribes again meanwhile stays subscribed.
    try await bench.write(.notifications)
    bench.begin(.nothing)
    try await bench.write(.notifications)
    bench.rig.time.advance(by: .seconds(2))
    try await bench.settle()
    bench.notify(2)
    try await bench.settle()
    #expect(bench.heard().contains("n2"))
  }

  @Test("With BlueZ 5.82 a value left in the socket of an unsubscribed client is sent by raw HCI")
  @LoopActor
  func unread() async throws {
    let bench = try await Bench(Self.new)
    defer { bench.close() }
    bench.rig.fake.leavesValues = true
    try await bench.write(.notifications)
    #expect(bench.notify(1) == Delivery(accepted: bench.links))
    try await bench.write(.nothing)
    try await bench.settle()
    #expect(bench.heard() == ["r1"])
    bench.rig.fake.leavesValues = false
    try await bench.write(.notifications)
    bench.notify(2)
    try await bench.settle()
    try await bench.write(.nothing)
    try await bench.settle()
    #expect(bench.heard() == ["n2", "r1"], "a value that bluetoothd has taken is not sent again")
  }

  @Test(
    "After 200 random CCCD writes a client gets each value once, in the form that it last configured",
    arguments: [old, new])
  @LoopActor
  func any(version: BlueZVersion) async throws {
    let bench = try await Bench(version)
    defer { bench.close() }
    var random = SystemRandomNumberGenerator()
    var wanted: [String] = []
    var written: [ClientConfiguration] = []
    for value in UInt8(0)..<20 {
      for _ in 0..<10 {
        let configuration = [ClientConfiguration.nothing, .notifications, .indications].randomElement(using: &random)
        written.append(configuration ?? .nothing)
        bench.begin(configuration ?? .nothing)
        if Bool.random(using: &random) { try await bench.rig.settle() }
      }
      try await bench.settle()
      bench.notify(value)
      try await bench.settle()
      wanted.append(["r", "n", "i"][Int(written.last?.rawValue ?? 0)] + "\(value)")
    }
    #expect(bench.heard().sorted() == wanted.sorted(), "\(written.map(\.rawValue))")
  }
}
