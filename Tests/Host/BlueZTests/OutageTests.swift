import Common
import Hall
import Journal
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import BlueZ
@testable import Verifier

/// Outages of the components below a kiosk, at any step of a transfer.
@Suite("Bluetooth outages at a verifier", .serialized)
struct OutageTests {
  enum Outage: String, CaseIterable, Sendable {
    case bluetoothd, adapter, power, bus

    /// Text of the radio status that the outage causes.
    var words: String {
      switch self {
      case .bluetoothd: "systemctl start bluetooth"
      case .adapter: "There is no Bluetooth adapter"
      case .power: "switched off"
      case .bus: "bus cannot be reached"
      }
    }

    /// Text of the cause in the journal line that reports the end of the outage.
    var cause: String {
      switch self {
      case .bluetoothd: "bluetoothd was restarted"
      case .adapter: "the adapter was gone"
      case .power: "the adapter was switched off"
      case .bus: "the connection to the system bus was lost"
      }
    }

    @LoopActor
    func begin(_ rig: Rig) {
      switch self {
      case .bluetoothd: rig.fake.vanish()
      case .adapter: rig.fake.removeAdapter()
      case .power: rig.fake.power("hci0", false)
      case .bus:
        rig.bus.kill()
        rig.fake.vanish()
      }
    }

    @LoopActor
    func end(_ rig: Rig) async throws {
      switch self {
      case .bluetoothd: try await rig.fake.start()
      case .adapter: rig.fake.addAdapter()
      case .power: rig.fake.power("hci0", true)
      case .bus:
        try rig.bus.start()
        try await rig.fake.start()
        rig.time.advance(by: .seconds(5))
      }
    }
  }

  init() { EventLoop.shared.runInBackground() }

  @Test(
    "After an outage of bluetoothd, the adapter or the bus at any step, the next wallet is served",
    arguments: Outage.allCases, Seeds.usual.prefix(2))
  @LoopActor
  func anyStep(outage: Outage, seed: UInt64) async throws {
    let rig = try await Rig.ready()
    defer { rig.close() }
    let verifier = rig.verifier(seed: seed)
    defer { verifier.stop() }
    // The client fetches received credentials; otherwise they would stay stored.
    verifier.observe(changed: {}, received: { [weak verifier] in verifier?.taken($0) })
    _ = verifier.start()
    var invitations: Set<String> = []
    var trials = 0
    var isOver = false
    while !isOver {
      for isPatient in [true, false] {
        let fault: Comment = "\(outage) lost \(isPatient ? "after" : "in") step \(trials + 1), seed \(seed)"
        #expect(invitations.insert(verifier.connectionURI).inserted, fault)
        let visits = verifier.counters.visits
        let text = sampleCredential(700, seed: seed &* 100 &+ UInt64(trials))
        let phone = try FakePhone(rig.fake, invitation: verifier.connectionURI, credential: text, seed: seed)
        try await phone.meet()
        isOver = try await !phone.go(trials + 1, isPatient: isPatient)
        guard !isOver else { break }

        outage.begin(rig)
        try await rig.reach(.waiting, outage.words)
        rig.tellServices()
        #expect(verifier.state == .waiting, fault)
        #expect(verifier.held == .init(), "\(fault): it holds \(verifier.held)")
        #expect(rig.driver.links.count == 0, fault)
        let transfers = verifier.transfers.transfers
        #expect(!transfers.contains { $0.isLive }, fault)
        if verifier.counters.visits > visits {
          let transfer = try #require(transfers.last)
          #expect(transfer.error?.code == (transfer.wasTaken ? nil : "TVV_UNK_001"), fault)
          #expect(transfer.state.isEnd || transfer.credential == text, fault)
        }
        #expect(verifier.connectionURI.isEmpty, fault)

        try await outage.end(rig)
        try await rig.reach(.ready)
        try await rig.untilOnAir()
        try await serve(rig, verifier, fault)
        try await rig.untilOnAir()
        trials += isPatient ? 0 : 1
      }
    }
    #expect(trials > 12, "only \(trials) steps")
    let entries = rig.entries.all.map(\.text)
    #expect(entries.first == "The radio is ready")
    #expect((2 * trials...2 * trials + 1).contains(entries.count - 1))
    #expect(entries.dropFirst().allSatisfy { $0.contains(outage.cause) && $0.hasSuffix("is ready again") })
    #expect(verifier.transfers.transfers.count <= 16 && verifier.vault.kept == (0, 0))
  }

  /// Runs an ordinary transfer.
  @LoopActor
  private func serve(_ rig: Rig, _ verifier: VerifierService, _ fault: Comment) async throws {
    let phone = try FakePhone(rig.fake, invitation: verifier.connectionURI, credential: Array("next".utf8), seed: 9)
    try await phone.meet()
    let notices = try await phone.bring()
    #expect(notices.contains(.status(accepted: true)), fault)
    #expect(verifier.transfers.transfers.last?.state == .accepted, fault)
    try await rig.settle()
    rig.tellServices()
    #expect(verifier.held == .init() && rig.driver.links.count == 0, fault)
  }
}

extension Rig {
  /// Waits until application and advertisement are active, and advances the time for as many attempts as necessary.
  func untilOnAir() async throws {
    for _ in 0..<40 {
      for _ in 0..<3 { try await settle() }
      if fake.advertisements.first?.isOnAir == true, fake.applications.first?.characteristics.isEmpty == false {
        return
      }
      time.advance(by: .milliseconds(300))
    }
    Issue.record("not on the air: \(fake.advertisements.count) advertisements, \(fake.applications.count) applications")
  }
}
