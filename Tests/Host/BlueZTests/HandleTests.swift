import BlueZ
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Peers that remember handles find the services there again")
struct HandleTests {
  init() { EventLoop.shared.runInBackground() }

  /// The sample application, whose service is to begin there.
  private static let application: GATTApplication = {
    var application = Service.application
    application.services[0].firstHandle = 0x0200
    return application
  }()

  /// Where its values are then: behind the service, a declaration, and those of the values before.
  private static let wanted: [String: UInt16] = [Service.put: 0x0202, Service.hear: 0x0204, Service.read: 0x0207]

  @LoopActor
  private static func values(_ application: FakeApplication?) -> [String: UInt16]? {
    application?.characteristics.mapValues(\.handle)
  }

  @Test(
    "A service begins at the handle that it was declared with, however often it is registered and whoever came before")
  @LoopActor
  func again() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let others = try await rig.serve(Service())
    let before = try #require(Self.values(rig.fake.applications.last))
    for _ in 0..<3 {
      let server = try await rig.serve(Service(), Self.application)
      #expect(Self.values(rig.fake.applications.last) == Self.wanted)
      server.close()
      try await rig.fake.until { rig.fake.applications.count == 1 }
    }
    others.close()
    try await rig.fake.until { rig.fake.applications.isEmpty }
    // What asks for none has others each time.
    let later = try await rig.serve(Service())
    #expect(try #require(Self.values(rig.fake.applications.last)) != before)
    later.close()
  }

  @Test("Where another program has the handles it is served at others, and asks for them again of the next bluetoothd")
  @LoopActor
  func taken() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.occupy(0x0205...0x0206)
    let server = try await rig.serve(Service(), Self.application)
    let found = try #require(Self.values(rig.fake.applications.last))
    #expect(found.values.allSatisfy { $0 != 0 } && found != Self.wanted)
    #expect(rig.fake.calls.all == Array(repeating: "RegisterApplication hci0 /org/earshot/gatt0", count: 2))
    #expect(rig.radio.status.state == .ready)
    rig.fake.vanish()
    try await rig.reach(.waiting)
    try await rig.fake.start()
    try await rig.reach(.ready)
    try await rig.fake.until { Self.values(rig.fake.applications.last) == Self.wanted }
    server.close()
  }

  @Test("What bluetoothd refuses for something else is asked for without handles at once, and with them after a pause")
  @LoopActor
  func refused() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    rig.fake.refusals = [KeepingTests.failed, KeepingTests.failed]
    let server = rig.radio.serve(Self.application, delegate: Service())
    try await rig.fake.until { rig.fake.refusals.isEmpty }
    try await rig.reach(.degraded, "Failed to register")
    #expect(rig.fake.calls.all.count == 2)
    rig.time.advance(by: .seconds(1))
    try await rig.fake.until { Self.values(rig.fake.applications.last) == Self.wanted }
    server.close()
  }
}
