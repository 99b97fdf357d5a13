import BlueZ
import Common
import Crypto
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali
import Verifier

@Suite("A verifier on BlueZ")
struct VerifierTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A wallet that subscribes sends its credential to a verifier on BlueZ and gets the acceptance")
  @LoopActor
  func credential() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let credential = Array("{\"verifiableCredential\":\"\(String(repeating: "vc ", count: 3000))\"}".utf8)
    let verifier = rig.verifier()
    let received = Mailbox<Transfer>()
    verifier.observe(changed: {}, received: { received.put($0) })
    let phone = try FakePhone(rig.fake, invitation: verifier.start(), credential: credential)
    try await phone.meet()
    let notices = try await phone.bring()
    #expect(notices.contains(.sent) && notices.contains(.status(accepted: true)))
    let transfer = try await received.next()
    #expect(transfer.credential == credential)
    #expect(transfer.state == .accepted)
    #expect(transfer.figures.mtu == 517)
    #expect(transfer.peer?.description == "00:AA:02:00:00:01")
    // The next wallet gets another key.
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    let next = try FakePhone(rig.fake, invitation: verifier.connectionURI, credential: credential)
    try await next.meet()
    verifier.stop()
    try await rig.fake.until { rig.fake.advertisements.isEmpty && rig.fake.applications.isEmpty }
  }

  @Test("A verifier on BlueZ advertises two dialects at once, and each wallet uses its own")
  @LoopActor
  func twoDialects() async throws {
    let rig = try await Rig.managed()
    defer { rig.close() }
    let verifier = rig.verifier([.v05, .v04])
    let (received, changes) = (Mailbox<Transfer>(), Mailbox<Void>())
    verifier.observe(changed: { changes.put(()) }, received: { received.put($0) })
    _ = verifier.start()
    for dialect in [Dialect.v04, .v05] {
      let credential = Array("for \(dialect.name.rawValue)".utf8)
      try await rig.kernel.until { rig.kernel.onAir().count == 2 }
      let phone = try FakePhone(
        rig.fake, invitation: verifier.connectionURI, credential: credential, kernel: rig.kernel, dialect: dialect)
      try await phone.meet()
      // A connection ends advertisements, so they are added again.
      try await rig.kernel.until { rig.kernel.onAir().count == 2 }
      let instances = rig.kernel.onAir()
      #expect(instances.keys.sorted() == [2, 3])
      #expect(instances[3]?.data.prefix(7) == [2, 1, 6, 3, 3, 0x01, 0x00])
      #expect(instances[2]?.data.prefix(7) == [2, 1, 6, 3, 3, 0x29, 0xAB])
      #expect(instances.values.allSatisfy { $0.scanResponse.count == 31 && $0.interval == 160 })
      let notices = try await phone.bring()
      #expect(notices.contains(.status(accepted: true)))
      let transfer = try await received.next()
      #expect(transfer.credential == credential && transfer.dialect == dialect.name.rawValue)
      while verifier.visitors > 0 { try await changes.next() }
    }
    verifier.stop()
    try await rig.kernel.until { rig.kernel.onAir().isEmpty }
  }

  @Test("If bluetoothd exits during a transfer, the transfer fails, and the next wallet is served")
  @LoopActor
  func daemonDies() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let verifier = rig.verifier()
    let received = Mailbox<Transfer>()
    verifier.observe(changed: {}, received: { received.put($0) })
    let phone = try FakePhone(rig.fake, invitation: verifier.start(), credential: Array("one".utf8))
    try await phone.meet()
    try await phone.identify()
    #expect(verifier.state == .serving)
    rig.fake.vanish()
    try await rig.reach(.waiting)
    rig.tellServices()
    #expect(verifier.state == .waiting)
    #expect(verifier.transfers.transfers.first?.state == .failed)
    try await rig.fake.start()
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    let next = try FakePhone(rig.fake, invitation: verifier.connectionURI, credential: Array("two".utf8))
    try await next.meet()
    _ = try await next.bring()
    #expect(try await received.next().credential == Array("two".utf8))
    verifier.stop()
  }

  @Test("A second application with one write a second for 10 min loses no link and does not disturb transfers")
  @LoopActor
  func secondApplication() async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let verifier = rig.verifier()
    let received = Mailbox<Transfer>()
    verifier.observe(changed: {}, received: { received.put($0) })
    _ = verifier.start()
    let neighbour = Service()
    let server = rig.tenant("neighbour", needs: 0).serve(Service.application, delegate: neighbour)
    try await rig.fake.until {
      rig.fake.applications.count == 2 && rig.fake.advertisements.first?.isOnAir == true
        && rig.fake.applications.contains { $0[Service.put] != nil }
    }
    let device = rig.fake.addDevice("00:AA:02:00:00:09")
    let begin = rig.time.now
    for minute in 0..<10 {
      for second in 0..<60 {
        #expect(await rig.fake.write([UInt8(second)], to: Service.put, from: device, mtu: nil) == nil)
        rig.time.advance(by: .seconds(1))
      }
      guard minute % 3 == 0 else { continue }
      let credential = Array("visit \(minute)".utf8)
      let phone = try FakePhone(rig.fake, invitation: verifier.connectionURI, credential: credential)
      try await phone.meet()
      #expect(try await phone.bring().contains(.status(accepted: true)))
      #expect(try await received.next().credential == credential)
      try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    }
    #expect(begin.duration(to: rig.time.now) >= .seconds(600))
    let link = try await neighbour.link()
    #expect(neighbour.events.all.count == 601)
    #expect(!neighbour.events.all.contains(.closed(link)))
    #expect(rig.fake.devices[device]?.isConnected == true)
    let counters = verifier.counters
    #expect(counters.visits == 4 && counters.received == 4)
    #expect(counters.refused == 0 && counters.failed == 0 && counters.silentLinks == 0 && counters.ignoredWrites == 0)
    server.close()
    verifier.stop()
  }
}

extension Rig {
  func verifier(_ dialects: [Dialect] = [.v05], seed: UInt64 = 1) -> VerifierService {
    var engine = VerifierEngine.Configuration(name: "OVPMOSIP")
    engine.reportDelay = .milliseconds(1)
    return VerifierService(
      radio: tenant("verifier"), scheduler: time,
      settings: .init(engine: engine, dialects: dialects, decision: .accept), random: SeededRandom(seed: seed))
  }
}
