import BlueZ
import Common
import DBus
import Journal
import Loop
import Radio
import TestSupport
import Testing
import Tuvali

@testable import Verifier

@Suite("Detection of an unresponsive bluetoothd")
struct PulseTests {
  init() { EventLoop.shared.runInBackground() }

  private static let pace = DaemonPulse.Pace()

  /// A rig whose driver pings bluetoothd, with an application that makes it do so.
  @LoopActor
  private static func serving() async throws -> (rig: Rig, service: Service, server: DriverRig.Server) {
    let rig = try await Rig(pace: pace)
    try await rig.reach(.ready)
    let service = Service()
    return (rig, service, try await rig.serve(service))
  }

  @Test("While bluetoothd does not answer, the radio waits with one journal line, and links stay up")
  @LoopActor
  func standsStill() async throws {
    let (rig, service, server) = try await Self.serving()
    defer { rig.close() }
    let client = rig.fake.addDevice()
    let link = try await service.link()
    rig.fake.standsStill = true
    try await rig.pass(.seconds(8))
    try await rig.reach(.waiting, "bluetoothd is running and does not answer: systemctl restart bluetooth")
    try await rig.pass(.seconds(60))
    #expect(rig.radio.status.state == .waiting)
    #expect(rig.radio.status.adapters == ["hci0"])
    #expect(rig.radio.links == [link])

    rig.fake.standsStill = false
    try await rig.pass(.seconds(4))
    try await rig.reach(.ready)
    #expect(await rig.fake.write([1], to: Service.put, from: client) == nil)
    #expect(rig.radio.links == [link])
    #expect(rig.entries.all.map(\.id) == [.radioReady, .radioLost, .radioReady])
    server.close()
  }

  @Test("The QR code is hidden while bluetoothd does not answer, and is shown unchanged afterwards")
  @LoopActor
  func kiosk() async throws {
    let rig = try await Rig(pace: Self.pace)
    defer { rig.close() }
    try await rig.reach(.ready)
    let verifier = rig.verifier(seed: 1)
    defer { verifier.stop() }
    _ = verifier.start()
    try await rig.untilOnAir()
    let code = verifier.connectionURI
    #expect(!code.isEmpty)
    rig.fake.standsStill = true
    try await rig.pass(.seconds(8))
    try await rig.reach(.waiting, "does not answer")
    #expect(verifier.connectionURI.isEmpty)
    rig.fake.standsStill = false
    try await rig.pass(.seconds(4))
    try await rig.reach(.ready)
    #expect(verifier.connectionURI == code)
  }

  @Test("A bluetoothd that answers is pinged at most every 4 s, and the radio stays ready")
  @LoopActor
  func answers() async throws {
    let (rig, _, server) = try await Self.serving()
    defer { rig.close() }
    let before = rig.fake.pings
    try await rig.pass(.seconds(40))
    #expect((5...10).contains(rig.fake.pings - before))
    #expect(rig.statuses.all.map(\.state) == [.ready])
    server.close()
  }

  @Test("A bluetoothd that sends other messages is not pinged")
  @LoopActor
  func lively() async throws {
    let (rig, _, server) = try await Self.serving()
    defer { rig.close() }
    let client = rig.fake.addDevice()
    try await rig.settle()
    let before = rig.fake.pings
    for _ in 0..<10 {
      rig.fake.signal(["RSSI": .int16(-60)], of: client)
      try await rig.pass(.seconds(2))
    }
    #expect(rig.fake.pings == before)
    server.close()
  }

  @Test("Without an application or a scan bluetoothd is not pinged")
  @LoopActor
  func unwanted() async throws {
    let (rig, _, server) = try await Self.serving()
    defer { rig.close() }
    server.close()
    try await rig.fake.until { rig.fake.applications.isEmpty }
    try await rig.pass(.seconds(5))
    let before = rig.fake.pings
    rig.fake.standsStill = true
    try await rig.pass(.seconds(30))
    #expect(rig.fake.pings == before)
    #expect(rig.radio.status.state == .ready)
  }

  @Test("An answer of bluetoothd that arrived in time counts even if it is read late")
  @LoopActor
  func late() async throws {
    let (rig, _, server) = try await Self.serving()
    defer { rig.close() }
    // The loop cannot read the answer before this function suspends.
    rig.time.advance(by: Self.pace.rest)
    rig.time.advance(by: Self.pace.patience)
    try await rig.settle()
    try await rig.settle()
    rig.time.advance(by: Self.pace.grace)
    try await rig.settle()
    #expect(rig.statuses.all.map(\.state) == [.ready])
    server.close()
  }

  @Test("When an unresponsive bluetoothd is restarted, the radio becomes ready at once")
  @LoopActor
  func restarted() async throws {
    let (rig, _, server) = try await Self.serving()
    defer { rig.close() }
    rig.fake.standsStill = true
    try await rig.pass(.seconds(8))
    try await rig.reach(.waiting, "does not answer")
    rig.fake.vanish()
    try await rig.reach(.waiting, "systemctl start bluetooth")
    rig.fake.standsStill = false
    try await rig.fake.start()
    try await rig.reach(.ready)
    server.close()
  }
}

extension Rig {
  /// Advances the time in steps shorter than any timeout, and lets the messages sent meanwhile arrive.
  func pass(_ duration: Duration) async throws {
    let step = Duration.milliseconds(250)
    var left = duration
    while left > .zero {
      time.advance(by: min(step, left))
      left -= step
      try await settle()
    }
  }
}
