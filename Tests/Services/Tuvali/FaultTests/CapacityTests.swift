import Air
import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// Credentials without a verdict, and the remaining capacity for waiting phones.
@Suite("Credentials without a verdict and the verifier's capacity", .serialized)
struct CapacityTests {
  init() { EventLoop.shared.runInBackground() }

  /// A phone sends a credential of one byte, and leaves when it receives SUCCESS, or after 300 ms.
  @LoopActor
  private static func deposit(in hall: Hall, _ phone: Phone) throws {
    phone.forget()
    try phone.deliver([UInt8(ascii: "x")])
    hall.time.run(until: { phone.values(of: .transferReportResponse) == [[1, 0, 0]] }, limit: .milliseconds(300))
    phone.leave()
    hall.time.run(until: { !phone.isConnected }, limit: .milliseconds(100))
  }

  @Test(
    "Sixteen one-byte credentials in 6 s, from one address or several, do not fill the verifier",
    arguments: [true, false], Seeds.few)
  func sixteen(isOnePhone: Bool, seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Hall(seed: seed, conditions: Trial.quick, decision: .client)
      try Trial.run("sixteen of one byte", hall) { trial in
        let start = hall.time.now
        let one = Phone(in: hall)
        for _ in 0..<16 { try Self.deposit(in: hall, isOnePhone ? one : Phone(in: hall)) }
        let time = start.duration(to: hall.time.now)
        trial.check(time < .seconds(7), "it took \(time)")
        hall.time.advance(by: .seconds(1))
        let waiting = hall.verifier.transfers.transfers.count { $0.state == .received }
        trial.check(waiting == 12, "\(waiting) wait for a verdict")
        trial.check(hall.verifier.state == .waiting && !hall.verifier.connectionURI.isEmpty, "nobody is invited")
        trial.check(hall.verifier.storage.hasPrefix("12 credentials wait for a verdict."), hall.verifier.storage)
        let lines = trial.log.records.filter { $0.id == .storeCrowded }
        trial.check(
          lines.count == 1 && lines.allSatisfy { $0.text.contains("earshot transfers") }, "\(lines.count) lines")
        // Clients whose credentials are judged while they wait are served.
        hall.judge = { _ in true }
        for number in 1...6 {
          let (transfer, _) = try trial.send(300)
          trial.expectEnd(of: transfer, within: .seconds(5))
          trial.check(transfer.state == .accepted, "person \(number) is \(transfer.state)")
        }
        for transfer in hall.verifier.transfers.transfers where transfer.state == .received {
          _ = hall.verifier.decide(transfer, accepted: false)
        }
        trial.check(hall.verifier.storage.isEmpty, hall.verifier.storage)
      }
    }
  }

  /// A hall whose quota of unjudged credentials is used up.
  @LoopActor
  private static func crowded(seed: UInt64) throws -> Hall {
    let hall = Hall(seed: seed, conditions: Trial.quick, decision: .client)
    for _ in 0..<12 { try Self.deposit(in: hall, Phone(in: hall)) }
    return hall
  }

  @Test("Above the quota of waiting credentials a phone gets SUCCESS only with the verdict", arguments: [true, false])
  func withVerdict(accepted: Bool) async throws {
    try await LoopActor.run {
      let hall = try Self.crowded(seed: 1)
      let phone = Phone(in: hall)
      try phone.deliver(sampleCredential(500))
      hall.time.run(until: { hall.incoming?.number == 13 && hall.incoming?.state == .received }, limit: .seconds(2))
      let incoming = try #require(hall.incoming)
      hall.time.advance(by: .seconds(20))
      #expect(incoming.state == .received && incoming.verdictDeadline > 0)
      #expect(phone.values(of: .transferReportResponse) == [])
      let isJudged = hall.verifier.decide(incoming, accepted: accepted)
      hall.time.advance(by: .milliseconds(100))
      #expect(isJudged && incoming.verdictDelivery == .sent)
      #expect(phone.notified.map(\.1) == [[1, 0, 0], [accepted ? 0 : 1]])
    }
  }

  @Test("Above the quota of waiting credentials a phone gets a named error instead of SUCCESS if no verdict is given")
  func withoutVerdict() async throws {
    try await LoopActor.run {
      let hall = try Self.crowded(seed: 1)
      let log = CapturedLog()
      defer { log.close() }
      let phone = Phone(in: hall)
      try phone.deliver(sampleCredential(500))
      hall.time.run(until: { hall.incoming?.number == 13 && hall.incoming?.state == .received }, limit: .seconds(2))
      let incoming = try #require(hall.incoming)
      hall.time.run(until: { !incoming.isLive }, limit: .seconds(32))
      let error = incoming.error as? TuvaliError
      #expect(incoming.state == .failed && error?.reason == .noCapacity && error?.code == "TVV_UNK_001")
      #expect(incoming.credential == nil && hall.verifier.vault.kept.waiting == 12)
      #expect(phone.notified.map(\.0) == [.disconnect])
      #expect(log.complaints(of: "Verifier").contains { $0.text.contains("There was no verdict within 30 s") })
    }
  }

  @Test("Above the quota the credential of a phone that disconnects early is erased and cannot be judged")
  func leaving() async throws {
    try await LoopActor.run {
      let hall = try Self.crowded(seed: 1)
      let phone = Phone(in: hall)
      try phone.deliver(sampleCredential(500))
      hall.time.run(until: { hall.incoming?.number == 13 && hall.incoming?.state == .received }, limit: .seconds(2))
      let incoming = try #require(hall.incoming)
      phone.leave()
      hall.time.advance(by: .milliseconds(500))
      #expect(incoming.state == .failed && (incoming.error as? TuvaliError)?.reason == .peerLost)
      let isJudged = hall.verifier.decide(incoming, accepted: true)
      #expect(!isJudged && hall.verifier.vault.kept.waiting == 12)
    }
  }

  @Test("A full verifier logs the command to run once, and logs when there is capacity again")
  func full() async throws {
    try await LoopActor.run {
      let hall = Hall(conditions: Trial.quick, decision: .client, keptTransfers: 2)
      let log = CapturedLog()
      defer { log.close() }
      for _ in 0..<2 { try Self.deposit(in: hall, Phone(in: hall)) }
      hall.time.advance(by: .seconds(60))
      #expect(hall.verifier.state == .full && hall.verifier.connectionURI.isEmpty)
      let sentence = hall.verifier.storage
      #expect(
        sentence.hasPrefix("2 credentials wait to be judged or fetched") && sentence.contains("No wallet is invited"))
      let lines = log.records.filter { $0.id == .storeFull }
      #expect(lines.count == 1 && lines.first?.level == .warning && lines.first?.text == sentence)
      #expect(sentence.contains("earshot transfers"))
      for transfer in hall.verifier.transfers.transfers { _ = hall.verifier.decide(transfer, accepted: false) }
      #expect(hall.verifier.storage.isEmpty && hall.verifier.state == .waiting)
      #expect(log.records.contains { $0.text == "There is capacity for credentials again" })
    }
  }

  @Test("The quota reserves one credential per session slot, unless this is over half of the capacity")
  func quota() async {
    await LoopActor.run {
      for (kept, slots, quota) in [(16, 4, 12), (8, 4, 4), (7, 4, 7), (1, 1, 1), (2, 1, 1), (1000, 32, 968)] {
        var settings = VerifierService.Settings()
        settings.keptTransfers = kept
        settings.engine.visitors = slots
        #expect(CredentialCapacity.quota(settings) == quota, "\(kept), \(slots)")
        settings.decision = .accept
        #expect(CredentialCapacity.quota(settings) == kept)
      }
    }
  }
}
