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

@Suite("A verifier works on BlueZ from end to end")
struct VerifierTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("A wallet that subscribes, as the iOS one does, brings its credential and hears that it is accepted")
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
    // The next wallet meets another key.
    try await rig.fake.until { rig.fake.advertisements.first?.isOnAir == true }
    let next = try FakePhone(rig.fake, invitation: verifier.connectionURI, credential: credential)
    try await next.meet()
    verifier.stop()
    try await rig.fake.until { rig.fake.advertisements.isEmpty && rig.fake.applications.isEmpty }
  }

  @Test("A bluetoothd that dies in the middle of a transfer fails it, and the next wallet is served")
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
}

extension Rig {
  /// In real time: the wallet's and the verifier's waits are part of it, and short.
  func verifier(seed: UInt64 = 1) -> VerifierService {
    var engine = VerifierEngine.Configuration(name: "OVPMOSIP")
    engine.reportDelay = .milliseconds(1)
    return VerifierService(
      radio: radio, scheduler: EventLoop.shared, settings: .init(engine: engine, decision: .accept),
      random: SeededRandom(seed: seed))
  }
}
