import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("Non-connectable advertising by the kernel")
struct BroadcastTests {
  init() { EventLoop.shared.runInBackground() }

  private static func message(_ text: String, set: Int = 1) -> Advertisement {
    Advertisement(.nonConnectable(AdvertisingSetID(set)), data: AdvertisingData(flags: 6, localName: text))
  }

  private static func bytes(_ text: String) -> [UInt8] { [2, 1, 6, UInt8(1 + text.utf8.count), 9] + text.utf8 }

  @Test(
    "An advertising set is non-connectable at 100 ms, has an address of its own, and keeps it for new data"
  )
  @LoopActor
  func address() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.kernel.until { rig.kernel.onAir()[3]?.data == Self.bytes("~0a") }
    let first = try #require(rig.kernel.onAir()[3])
    #expect(first.flags == .intervals && first.interval == 160 && first.scanResponse == [])
    let address = try #require(first.address)
    rig.driver.advertise(Self.message("~1b"), in: 0)
    try await rig.kernel.until { rig.kernel.onAir()[3]?.data == Self.bytes("~1b") }
    #expect(rig.kernel.onAir()[3]?.address == address && rig.kernel.made[3] == 1)
    rig.driver.advertise(Self.message("~2c", set: 2), in: 0)
    try await rig.kernel.until { rig.kernel.onAir()[3]?.data == Self.bytes("~2c") }
    #expect(rig.kernel.onAir()[3]?.address != address)
  }

  @Test("If the kernel refuses new data for an advertising instance, the instance is removed and added again")
  @LoopActor
  func exchangeRefused() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.kernel.until { rig.kernel.onAir()[3]?.data == Self.bytes("~0a") }
    try await rig.settle()
    rig.kernel.refusalsByOpcode[AddExtendedAdvertisingData.opcode] = [.invalidParameters]
    rig.driver.advertise(Self.message("~1b"), in: 0)
    try await rig.kernel.until { rig.kernel.onAir()[3]?.data == Self.bytes("~1b") }
    #expect(rig.kernel.made[3] == 2)
  }

  @Test("Each change of a non-connectable advertisement is reported when the kernel has confirmed it")
  @LoopActor
  func told() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.isSilent = true
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.settle()
    #expect(rig.radio.airings.all == [])
    rig.kernel.isSilent = false
    // An unanswered request is given up, and retried after a pause, each in a loop iteration of its own.
    for _ in 0..<71 {
      rig.time.advance(by: .seconds(1))
      try await rig.settle()
    }
    _ = try await rig.radio.airings.first { $0.advertisement == Self.message("~0a") }
    rig.driver.advertise(Self.message("~1b"), in: 0)
    _ = try await rig.radio.airings.first { $0.advertisement == Self.message("~1b") }
    rig.driver.advertise(nil, in: 0)
    _ = try await rig.radio.airings.first { $0.advertisement == nil }
    #expect(
      rig.radio.airings.all.map(\.advertisement) == [Self.message("~0a"), Self.message("~1b"), nil])
  }

  @Test("An advertising instance that cannot be added again is reported as off, and as on when it can")
  @LoopActor
  func notMadeAnew() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.set([.powered, .lowEnergy, .connectable])
    rig.driver.advertise(Self.message("~0a"), in: 0)
    _ = try await rig.radio.airings.first { $0.advertisement == Self.message("~0a") }
    try await rig.settle()
    // A kernel without a free set: the adapter is no longer connectable, so the instance has to be added again.
    rig.kernel.refusalsByOpcode[AddExtendedAdvertisingParameters.opcode] = [.noResources]
    rig.kernel.set([.powered, .lowEnergy])
    _ = try await rig.radio.airings.first { $0.advertisement == nil }
    #expect(rig.kernel.onAir().isEmpty)
    for _ in 0..<20 where rig.radio.airings.all.count < 3 {
      rig.time.advance(by: .seconds(1))
      try await rig.settle()
    }
    #expect(rig.radio.airings.all.map(\.advertisement) == [Self.message("~0a"), nil, Self.message("~0a")])
  }

  @Test("A peer that connects does not interrupt a non-connectable advertising set or change its address")
  @LoopActor
  func connection() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.driver.advertise(.sample, in: 0)
    rig.driver.advertise(Self.message("~0a"), in: 1)
    try await rig.kernel.until { rig.kernel.onAir().count == 2 }
    let made = rig.kernel.made
    rig.fake.addDevice()
    try await rig.kernel.until { rig.kernel.made[3] == (made[3] ?? 0) + 1 && rig.kernel.onAir().count == 2 }
    try await rig.settle()
    #expect(rig.kernel.made[2] == made[2])
  }

  @Test(
    "While another program makes the adapter connectable, the radio is degraded, with cause and remedy",
    arguments: [
      (ControllerSettings.discoverable, "bluetoothctl discoverable off"), ([], "btmgmt connectable off"),
    ] as [(ControllerSettings, String)])
  @LoopActor
  func connectableAdapter(more: ControllerSettings, words: String) async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.set(ControllerSettings([.powered, .lowEnergy, .connectable]).union(more))
    try await rig.settle()
    #expect(rig.radio.status.state == .ready, "as long as nothing is sent that it harms")
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.reach(.degraded, words)
    try await rig.kernel.until { rig.kernel.onAir()[3] != nil }
    #expect(rig.kernel.onAir()[3]?.address == nil)
    rig.kernel.set([.powered, .lowEnergy])
    try await rig.reach(.ready)
    try await rig.kernel.until { rig.kernel.onAir()[3]?.address != nil }
  }

  @Test("An adapter that was connectable before the service started is reported")
  @LoopActor
  func connectableBefore() async throws {
    let kernel = FakeKernel()
    kernel.set([.powered, .lowEnergy, .connectable])
    let rig = try await Rig.managed(kernel: kernel)
    defer { rig.close() }
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.reach(.degraded, "btmgmt connectable off")
  }

  @Test("Advertising instances of bluetoothd count towards the slots and are not changed")
  @LoopActor
  func foreign() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    #expect(rig.driver.foreignAdvertisements == 0)
    rig.kernel.take(1)
    rig.kernel.tell(.advertisingAdded(instance: 1))
    try await rig.settle()
    #expect(rig.driver.foreignAdvertisements == 1 && rig.driver.advertisingSlots == 2)
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.kernel.until { rig.kernel.onAir()[3] != nil }
    #expect(rig.kernel.onAir()[1]?.data == FakeKernel.foreignData)
  }
}
