import Air
import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Advertisement monitors of the kernel")
struct MonitorTests {
  init() { EventLoop.shared.runInBackground() }

  private static let name = AdvertisingPattern(type: 9, bytes: [0x7E])
  private static let short = AdvertisingPattern(type: 8, bytes: [0x7E])
  private static let hello: [UInt8] = [2, 1, 6, 4, 9, 0x7E, 0x30, 0x61]
  private static let other: [UInt8] = [2, 1, 6, 4, 9, 0x41, 0x30, 0x61]

  @LoopActor
  private static func listening(_ patterns: Set<AdvertisingPattern> = [name, short]) async throws -> Rig {
    let rig = try await Rig.managed()
    rig.radio.listen(for: patterns)
    try await rig.kernel.until { rig.kernel.monitors[0]?.count == 1 }
    return rig
  }

  @Test("Packet patterns are added as a kernel monitor, without discovery, and the monitor is removed with them")
  @LoopActor
  func monitor() async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    #expect(rig.kernel.monitors[0]?.values.map { Set($0) } == [[Self.name, Self.short]])
    rig.radio.listen(for: [Self.name])
    try await rig.kernel.until { rig.kernel.monitors[0]?.values.map { Set($0) } == [[Self.name]] }
    #expect(!rig.fake.isDiscovering())
    rig.radio.listen(for: nil)
    try await rig.kernel.until { rig.kernel.monitors[0]?.isEmpty == true }
    try await rig.settle()
    #expect(rig.radio.status.state == .ready)
  }

  @Test("Packets that match a pattern are delivered with and without discovery, and other packets are not")
  @LoopActor
  func packets() async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    let sender = BluetoothAddress(7)
    for isDiscovering in [false, true] {
      rig.kernel.isDiscovering = isDiscovering
      rig.kernel.hear(Self.other, from: sender)
      for _ in 0..<2 { rig.kernel.hear(Self.hello, from: sender) }
      rig.kernel.hear(Self.hello, from: sender, on: 1)
    }
    rig.kernel.hear(Self.hello, from: BluetoothAddress(8), flags: 0, rssi: nil)
    _ = try await rig.radio.packets.first { $0.address == BluetoothAddress(8) }
    let heard = rig.radio.packets.all
    #expect(heard.count == 5 && heard.allSatisfy { $0.data == Self.hello && $0.time == rig.time.now })
    #expect(heard.first?.kind == .nonConnectable && heard.first?.rssi == -60 && heard.first?.address == sender)
    #expect(heard.last?.kind == .unknown && heard.last?.rssi == nil)
  }

  @Test("A scan and packet patterns at the same time use a discovery and a monitor")
  @LoopActor
  func both() async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    let scan = rig.radio.scan(for: []) { _ in }
    try await rig.fake.until { rig.fake.isDiscovering() }
    #expect(rig.kernel.monitors[0]?.count == 1)
    scan.cancel()
    try await rig.fake.until { !rig.fake.isDiscovering() }
    #expect(rig.kernel.monitors[0]?.count == 1)
  }

  @Test("Our monitor is added again if another program removes it, and removals of other monitors are ignored")
  @LoopActor
  func removed() async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    rig.kernel.tell(.monitorRemoved(77))
    rig.kernel.tell(.monitorRemoved(1), of: 1)
    rig.kernel.clearMonitors()
    try await rig.settle()
    rig.time.advance(by: .milliseconds(500))
    try await rig.kernel.until { rig.kernel.monitors[0]?.count == 1 }
  }

  @Test("After power-off and power-on there is exactly one kernel monitor")
  @LoopActor
  func powerCycle() async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    rig.fake.power("hci0", false)
    try await rig.kernel.until { rig.kernel.monitors[0]?.isEmpty == true }
    rig.fake.power("hci0", true)
    try await rig.kernel.until { rig.kernel.monitors[0]?.count == 1 }
  }

  @Test(
    "A kernel monitor that survived power-off is removed before a new one is added",
    arguments: [ManagementStatus.busy, .failed, .notPowered])
  @LoopActor
  func notRemoved(status: ManagementStatus) async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    rig.kernel.refusalsByOpcode[RemoveAdvertisementMonitor.opcode] = [status]
    rig.fake.power("hci0", false)
    try await rig.settle()
    #expect(rig.kernel.monitors[0]?.count == 1)
    rig.fake.power("hci0", true)
    try await rig.settle()
    try await rig.kernel.until { rig.kernel.monitors[0]?.keys.sorted() == [2] }
  }

  @Test("A kernel monitor whose removal is refused is reported, and removed later")
  @LoopActor
  func keptByKernel() async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    rig.kernel.refusalsByOpcode[RemoveAdvertisementMonitor.opcode] = [.failed, .failed, .failed]
    rig.radio.listen(for: [Self.short])
    for _ in 0..<4 {
      try await rig.settle()
      rig.time.advance(by: .milliseconds(500))
    }
    let reason = try await rig.reach(.degraded, "The kernel did not remove an advertisement monitor").reason
    #expect(rig.driver.status.traits.deafness == reason)
    for _ in 0..<10 {
      try await rig.settle()
      rig.time.advance(by: .seconds(1))
    }
    try await rig.kernel.until { rig.kernel.monitors[0]?.values.map { Set($0) } == [[Self.short]] }
    try await rig.reach(.ready)
    #expect(rig.driver.status.traits.deafness == nil)
  }

  @Test(
    "A kernel that does not support monitors is reported with advice",
    arguments: [
      (ManagementStatus.unknownCommand, "Linux 5.10 or newer"), (.noResources, "systemctl restart bluetooth"),
      (.invalidParameters, "Invalid Parameters"),
    ])
  @LoopActor
  func refused(status: ManagementStatus, words: String) async throws {
    let kernel = FakeKernel()
    kernel.refusalsByOpcode[AddAdvertisementPatternsMonitor.opcode] = [status]
    let rig = try await Rig.managed(kernel: kernel)
    defer { rig.close() }
    rig.radio.listen(for: [Self.name])
    let reason = try await rig.reach(.degraded, words).reason
    #expect(rig.driver.status.traits.deafness == reason)
    rig.time.advance(by: .seconds(1))
    try await rig.kernel.until { rig.kernel.monitors[0]?.count == 1 }
    try await rig.reach(.ready)
  }

  @Test("A kernel monitor that is confirmed after it is no longer needed is removed")
  @LoopActor
  func tooLate() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    for _ in 0..<3 {
      rig.radio.listen(for: [Self.name])
      rig.radio.listen(for: [Self.short])
      rig.radio.listen(for: nil)
    }
    rig.radio.listen(for: [Self.short])
    try await rig.kernel.until { rig.kernel.monitors[0]?.values.map { Set($0) } == [[Self.short]] }
    rig.radio.listen(for: nil)
    try await rig.kernel.until { rig.kernel.monitors[0]?.isEmpty == true }
    try await rig.settle()
    #expect(rig.kernel.monitors[0]?.isEmpty == true)
  }

  @Test("At exit no kernel monitor remains")
  @LoopActor
  func rest() async throws {
    let rig = try await Self.listening()
    defer { rig.close() }
    var isDone = false
    rig.driver.rest(within: .seconds(2)) { isDone = true }
    #expect(!isDone)
    try await rig.kernel.until { rig.kernel.monitors[0]?.isEmpty == true }
    try await rig.settle()
    #expect(isDone)
  }

  @Test("At exit the removal of a monitor is repeated within a time limit if the kernel is busy")
  @LoopActor
  func restOfBusy() async throws {
    for times in [3, 100] {
      let rig = try await Self.listening()
      defer { rig.close() }
      rig.kernel.refusalsByOpcode[RemoveAdvertisementMonitor.opcode] = Array(repeating: .busy, count: times)
      var isDone = false
      rig.driver.rest(within: .seconds(2)) { isDone = true }
      for _ in 0..<25 where !isDone {
        try await rig.settle()
        rig.time.advance(by: .milliseconds(100))
      }
      #expect(isDone && rig.kernel.monitors[0]?.isEmpty == (times == 3))
    }
  }
}
