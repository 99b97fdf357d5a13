import BlueZ
import DBus
import Loop
import Radio
import TestSupport
import Testing

@Suite("Removing an application after its clients' links")
struct LeavingTests {
  init() { EventLoop.shared.runInBackground() }

  /// A rig with a client that has written, whose link is being closed, and whose application was withdrawn.
  ///
  /// - Parameter other: an application that is also served.
  @LoopActor
  private static func leaving(beside other: ApplicationID? = nil) async throws -> (rig: Rig, client: ObjectPath) {
    let rig = try await Rig.ready()
    let service = Service()
    let server = try await rig.serve(service)
    if let other {
      rig.driver.serve(Service.application, as: other)
      try await rig.fake.until { rig.fake.applications.count == 2 }
    }
    let client = rig.fake.addDevice()
    let link = try await service.link()
    #expect(await rig.fake.write([1], to: Service.put, from: client) == nil)
    rig.fake.holdsCuts = true
    server.close()
    rig.driver.cut(link)
    try await rig.settle()
    return (rig, client)
  }

  @LoopActor
  private static func isGone(_ rig: Rig) -> Bool {
    rig.fake.calls.all.contains("UnregisterApplication hci0 /org/earshot/gatt0")
  }

  @Test("A closed application is removed only after its client's link is cut, and refuses writes until then")
  @LoopActor
  func waits() async throws {
    let (rig, client) = try await Self.leaving()
    defer { rig.close() }
    #expect(rig.fake.calls.all.contains("Disconnect \(client.lastElement)") && !Self.isGone(rig))
    let refusal = await rig.fake.write([2], to: Service.put, from: client)
    #expect(refusal?.name.hasPrefix("org.bluez.Error.") == true, "\(String(describing: refusal))")
    var hasRested = false
    rig.driver.rest(within: .seconds(2)) { hasRested = true }
    rig.time.advance(by: .milliseconds(2900))
    try await rig.settle()
    #expect(!Self.isGone(rig) && !hasRested)
    rig.fake.endCuts()
    try await rig.fake.until { Self.isGone(rig) && rig.fake.applications.isEmpty }
    #expect(hasRested)
  }

  @Test("A new application is registered after the previous one has been removed")
  @LoopActor
  func next() async throws {
    let (rig, _) = try await Self.leaving()
    defer { rig.close() }
    rig.driver.serve(Service.application, as: ApplicationID(7))
    try await rig.settle()
    #expect(!rig.fake.calls.all.contains("RegisterApplication hci0 /org/earshot/gatt7"))
    rig.fake.endCuts()
    try await rig.fake.until { rig.fake.applications.contains { $0.path == "/org/earshot/gatt7" } }
    #expect(Self.isGone(rig) && rig.fake.applications.count == 1)
  }

  @Test("While a closed application waits for its removal, writes of its other clients are refused")
  @LoopActor
  func latecomer() async throws {
    let (rig, _) = try await Self.leaving()
    defer { rig.close() }
    let other = rig.fake.addDevice("00:AA:02:00:00:02")
    #expect(await rig.fake.write([1], to: Service.put, from: other) != nil)
    rig.fake.endCuts()
    try await rig.fake.until { Self.isGone(rig) }
  }

  @Test("If the link of a closed application does not end, the application is removed after 3 s")
  @LoopActor
  func timeout() async throws {
    let (rig, _) = try await Self.leaving()
    defer { rig.close() }
    rig.time.advance(by: .milliseconds(3100))
    try await rig.fake.until { Self.isGone(rig) && rig.fake.applications.isEmpty }
    var hasRested = false
    rig.driver.rest(within: .seconds(2)) { hasRested = true }
    #expect(hasRested)
    rig.fake.endCuts()
  }

  @Test("Each closed application is removed at most 3 s after its own close, and a new one waits only for earlier ones")
  @LoopActor
  func followed() async throws {
    let (rig, _) = try await Self.leaving(beside: ApplicationID(7))
    defer { rig.close() }
    var hasFollowed = false
    rig.driver.rest(within: .seconds(9)) { hasFollowed = true }
    rig.time.advance(by: .milliseconds(2500))
    rig.driver.stopServing(ApplicationID(7))
    try await rig.settle()
    #expect(!Self.isGone(rig) && !hasFollowed)
    rig.time.advance(by: .milliseconds(600))
    try await rig.fake.until { Self.isGone(rig) }
    #expect(hasFollowed)
    rig.time.advance(by: .milliseconds(2300))
    try await rig.settle()
    #expect(rig.fake.applications.map(\.path) == ["/org/earshot/gatt7"], "its own link may not have ended yet")
    rig.time.advance(by: .milliseconds(200))
    try await rig.fake.until { rig.fake.applications.isEmpty }
    rig.fake.endCuts()
  }

  @Test("A link that another service uses does not delay the removal of a closed application")
  @LoopActor
  func shared() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let service = Service()
    let server = try await rig.serve(service)
    let client = rig.fake.addDevice()
    _ = try await service.link()
    #expect(await rig.fake.write([1], to: Service.put, from: client) == nil)
    server.close()
    try await rig.fake.until { Self.isGone(rig) && rig.fake.applications.isEmpty }
    #expect(!rig.fake.calls.all.contains { $0.hasPrefix("Disconnect") })
  }
}
