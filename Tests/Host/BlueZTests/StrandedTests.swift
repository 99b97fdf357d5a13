import BlueZ
import Common
import HCI
import Loop
import Radio
import TestSupport
import Testing

/// Connected subscribers whose notification socket bluetoothd has closed because another subscriber left. Facts:
/// bluez.md section 12.
@Suite("Clients with an orphaned subscription")
struct StrandedTests {
  init() { EventLoop.shared.runInBackground() }

  private typealias Two = ExactnessTests.Two
  private static let hear = ExactnessTests.hear
  private static let version = BlueZVersion(5, 82)
  /// A value longer than a packet of the controller.
  private static let long = [UInt8](repeating: 7, count: 300)

  /// Two clients, of which the later one has disconnected.
  @LoopActor
  private func stranded(_ reach: GATTCharacteristic.Reach) async throws -> Two {
    let two = try await Two(Self.version, reach)
    two.rig.fake.setConnected(two.devices[1], false)
    _ = try await two.rig.radio.told.first { $0 == .down(two.links[1]) }
    try await two.rig.settle()
    // It is not known yet whether the socket was closed by an unsubscription or by the end of the link.
    let delivery = two.server.notify([0], of: Self.hear, to: two.links[0])
    #expect(delivery == Delivery(full: [two.links[0]]))
    two.rig.time.advance(by: .seconds(1))
    #expect(hasRoom(two))
    return two
  }

  @LoopActor
  private func hasRoom(_ two: Two) -> Bool { two.rig.radio.told.all.contains(.room(two.links[0])) }

  @LoopActor
  private func unsubscriptions(_ two: Two) -> Int {
    two.rig.radio.told.all.count { $0 == .used(two.server.number, two.links[0], .unsubscribed(Self.hear)) }
  }

  @Test(
    "A value for orphaned subscribers is sent as a signal, or by raw HCI if it is short and others would overhear it")
  @LoopActor
  func subscribers() async throws {
    let two = try await stranded(.subscribers)
    defer { two.close() }
    for value in [[1], Self.long] {
      #expect(two.server.notify(value, of: Self.hear, to: two.links[0]) == Delivery(accepted: [two.links[0]]))
    }
    #expect(two.server.notify(Self.long, of: Self.hear, to: .subscribers) == Delivery(accepted: [two.links[0]]))
    while two.heard.joined().count < 3 { try await two.rig.settle() }
    #expect(two.heard[0].sorted { $0.count < $1.count } == [[1], Self.long, Self.long])
    #expect(two.raw.sent.all.count == 1)
    #expect(unsubscriptions(two) == 0)
    two.server.close()
  }

  @Test("An exact value for an orphaned subscription is sent by raw HCI")
  @LoopActor
  func exact() async throws {
    let two = try await stranded(.exact)
    defer { two.close() }
    #expect(two.server.notify(Self.long, of: Self.hear, to: two.links[0]) == Delivery(accepted: [two.links[0]]))
    while two.heard.joined().isEmpty { try await two.rig.settle() }
    #expect(two.heard == [[Self.long], []])
    #expect(two.raw.controller.violations.isEmpty)
    two.raw.failure = .denied("send: Operation not permitted")
    two.server.notify([1], of: Self.hear, to: two.links[0])
    try await two.rig.reach(.degraded, "send: Operation not permitted")
    #expect(two.server.notify([2], of: Self.hear, to: two.links[0]) == Delivery(accepted: [two.links[0]]))
    while two.heard[0].count < 2 { try await two.rig.settle() }
    #expect(two.heard[0].contains([2]))
    two.server.close()
  }

  @Test("A client that subscribes again is no longer orphaned, and this is reported once")
  @LoopActor
  func again() async throws {
    let two = try await stranded(.subscribers)
    defer { two.close() }
    try await two.rig.fake.subscribe(Service.hear, by: two.devices[0])
    let past = two.raw.sent.all.count
    #expect(two.server.notify([1], of: Self.hear, to: two.links[0]) == Delivery(accepted: [two.links[0]]))
    while two.heard.joined().isEmpty { try await two.rig.settle() }
    #expect(two.heard == [[[1]], []])
    #expect(two.raw.sent.all.count == past)
    let uses = two.rig.radio.told.all.count { $0 == .used(two.server.number, two.links[0], .subscribed(Self.hear)) }
    #expect(uses == 1)
    two.server.close()
  }

  @Test("An unsubscription while another client is connected is reported 1 s later, and a waiting sender gets capacity")
  @LoopActor
  func unwanted() async throws {
    let two = try await Two(Self.version, .subscribers)
    defer { two.close() }
    try await two.rig.fake.subscribe(Service.hear, false, by: two.devices[0])
    try await two.rig.settle()
    #expect(two.server.notify([1], of: Self.hear, to: two.links[0]) == Delivery(full: [two.links[0]]))
    two.rig.time.advance(by: .milliseconds(999))
    #expect(unsubscriptions(two) == 0)
    two.rig.time.advance(by: .milliseconds(1))
    #expect(unsubscriptions(two) == 1)
    #expect(hasRoom(two))
    #expect(two.server.notify([2], of: Self.hear, to: two.links[0]) == Delivery(unreachable: [two.links[0]]))
    two.server.close()
  }
}
