import DBus
import Loop
import Radio
import TestSupport
import Testing

@testable import BlueZ

@Suite("Attribute handles of served applications")
struct HandleTests {
  init() { EventLoop.shared.runInBackground() }

  /// The sample application, whose service has a fixed handle.
  private static let application: GATTApplication = {
    var application = Service.application
    application.services[0].handleOffset = 24
    return application
  }()

  /// The number of the block that holds the handles of an application's values; nil if no block does.
  @LoopActor
  private static func block(of application: FakeApplication?) -> UInt16? {
    guard let application else { return nil }
    let values = application.characteristics.mapValues { Int($0.handle) }
    return (0..<HandleBlock.count).first { number in
      let first = Int(HandleBlock(number: number).handle(at: 24))
      return values == [Service.put: first + 2, Service.hear: first + 4, Service.read: first + 7]
    }
  }

  @Test("Each registration of an application gets the next block of attribute handles, and after the last the first")
  @LoopActor
  func blocks() async throws {
    let rig = try await Rig.ready(version: BlueZVersion(5, 82))
    defer { rig.close() }
    let others = try await rig.serve(Service())
    let server = try await rig.serve(Service(), Self.application)
    var before = try #require(Self.block(of: rig.fake.applications.last))
    for _ in 0..<10 {
      rig.fake.vanish()
      try await rig.reach(.waiting)
      try await rig.fake.start()
      try await rig.reach(.ready)
      try await rig.fake.until {
        rig.fake.applications.count == 2 && rig.fake.applications.allSatisfy { $0[Service.put]?.handle ?? 0 != 0 }
      }
      let now = try #require(rig.fake.applications.compactMap { Self.block(of: $0) }.first)
      #expect(now == (before + 1) % HandleBlock.count)
      before = now
    }
    server.close()
    others.close()
  }

  @Test(
    "A bluetoothd older than 5.76 or of unknown version is given no attribute handles",
    arguments: [BlueZVersion(5, 66), nil] as [BlueZVersion?])
  @LoopActor
  func older(version: BlueZVersion?) async throws {
    let rig = try await Rig.ready(version: version)
    defer { rig.close() }
    let server = try await rig.serve(Service(), Self.application)
    let found = try #require(rig.fake.applications.last)
    #expect(found[Service.put]?.handle ?? 0 > 0 && Self.block(of: found) == nil)
    server.close()
  }

  @Test(
    "All blocks of attribute handles end below handle 1,024 and start after bluetoothd's own handles")
  func limits() {
    let handles = (0..<HandleBlock.count).flatMap { number in
      (0..<HandleBlock.size).map { HandleBlock(number: number).handle(at: $0) }
    }
    #expect(Set(handles).count == 400 && handles.max() == 783 && handles.min() == 0x0180)
    #expect(Set((0..<100).map { _ in HandleBlock.random() }).count > 1)
  }

  @Test("If bluetoothd already uses attribute handles of a block, others are assigned until bluetoothd restarts")
  @LoopActor
  func taken() async throws {
    let rig = try await Rig.ready(version: BlueZVersion(5, 82))
    defer { rig.close() }
    rig.fake.occupy(0x0180...0x030F)
    let server = try await rig.serve(Service(), Self.application)
    let found = try #require(rig.fake.applications.last)
    #expect(found[Service.put]?.handle == 0x0312 && Self.block(of: found) == nil)
    #expect(rig.fake.calls.all == Array(repeating: "RegisterApplication hci0 /org/earshot/gatt0", count: 2))
    #expect(rig.radio.status.state == .ready)
    rig.fake.vanish()
    try await rig.reach(.waiting)
    try await rig.fake.start()
    try await rig.reach(.ready)
    try await rig.fake.until { Self.block(of: rig.fake.applications.last) != nil }
    server.close()
  }

  @Test("A refused registration is repeated without fixed attribute handles, and later ones have handles again")
  @LoopActor
  func refused() async throws {
    let rig = try await Rig.ready(version: BlueZVersion(5, 82))
    defer { rig.close() }
    rig.fake.refusals = [KeepingTests.failed, KeepingTests.failed]
    let server = rig.radio.serve(Self.application, delegate: Service())
    try await rig.fake.until { rig.fake.refusals.isEmpty }
    try await rig.reach(.degraded, "Failed to register")
    #expect(rig.fake.calls.all.count == 2)
    rig.time.advance(by: .seconds(1))
    try await rig.fake.until { Self.block(of: rig.fake.applications.last) != nil }
    server.close()
  }
}
