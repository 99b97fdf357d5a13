import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

@Suite("What nobody connects by, as the kernel sends it")
struct BroadcastTests {
  init() { EventLoop.shared.runInBackground() }

  private static func message(_ text: String, set: Int = 1) -> Advertisement {
    Advertisement(.nonConnectable(AdvertisingSetID(set)), data: AdvertisingData(flags: 6, localName: text))
  }

  private static func bytes(_ text: String) -> [UInt8] { [2, 1, 6, UInt8(1 + text.utf8.count), 9] + text.utf8 }

  @Test(
    "It is not connectable, at 100 ms, from an address that stays when its data changes, and has another one as another set"
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

  @Test("Where the kernel refuses other data for a live instance, the instance is made anew")
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

  @Test("That it is on the air is told when the kernel has it, that it is not when it goes, and each exchange")
  @LoopActor
  func told() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.isSilent = true
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.settle()
    #expect(rig.radio.airings.all == [])
    rig.kernel.isSilent = false
    // What was not answered is given up, and tried again after a pause: each takes its turn of the loop.
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

  @Test("What was on the air and cannot be made anew is told to be off the air, and on it again when it can")
  @LoopActor
  func notMadeAnew() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    rig.kernel.set([.powered, .lowEnergy, .connectable])
    rig.driver.advertise(Self.message("~0a"), in: 0)
    _ = try await rig.radio.airings.first { $0.advertisement == Self.message("~0a") }
    try await rig.settle()
    // As a kernel that has no set left: the instance has to be made anew, for the adapter is connectable no more.
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

  @Test("A peer that connects ends nothing of it: it is not put on the air anew, and keeps its address")
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
    "While the adapter as a whole is connectable the radio says so, who made it so and what to do; then it is sent anew",
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

  @Test("An adapter that was connectable before the program started is known to be so")
  @LoopActor
  func connectableBefore() async throws {
    let kernel = FakeKernel()
    kernel.set([.powered, .lowEnergy, .connectable])
    let rig = try await Rig.managed(kernel: kernel)
    defer { rig.close() }
    rig.driver.advertise(Self.message("~0a"), in: 0)
    try await rig.reach(.degraded, "btmgmt connectable off")
  }

  @Test("bluetoothd's own instances are counted, and left alone")
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
