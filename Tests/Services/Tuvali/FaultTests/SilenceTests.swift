import Air
import Common
import Hall
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// One side stops sending, while the link stays up.
@Suite("Timeouts of verifier and wallet", .serialized)
struct SilenceTests {
  init() { EventLoop.shared.runInBackground() }

  /// A wallet without timeouts of its own.
  private static let patient: WalletEngine.Configuration = {
    var patient = WalletEngine.Configuration()
    patient.connectTimeout = .seconds(3600)
    patient.reportTimeout = .seconds(3600)
    patient.idleTimeout = .seconds(3600)
    return patient
  }()

  /// A simulated radio without request timeouts that drops all packets from a given one on.
  @LoopActor
  private func silence(
    _ hall: Hall, from first: Int, where isSilenced: @escaping @LoopActor (AirPacket) -> Bool
  ) -> Striker {
    var conditions = Trial.quick
    conditions.requestTimeout = .seconds(24 * 3600)
    let striker = Striker(at: first, throughout: true, where: isSilenced) { _ in .drop }
    conditions.filter = striker.judge
    hall.air.conditions = conditions
    return striker
  }

  @Test(
    "A wallet that stops sending at any packet is disconnected, and the next wallet is served", arguments: Seeds.usual)
  func silentWallet(seed: UInt64) async throws {
    try await LoopActor.run {
      for number in 0... {
        let hall = Hall(seed: seed)
        let kiosk = hall.kioskRadio.address
        let striker = silence(hall, from: number) { $0.to == kiosk }
        try Trial.run("wallet silent from packet \(number)", hall) { trial in
          let (transfer, _) = try trial.send(700, Self.patient)
          hall.time.run(until: { striker.hasStruck || !transfer.isLive }, limit: .seconds(10))
          guard striker.hasStruck else { return }
          // Packet 0 is the Identify, and packet 1 the size.
          let limit: Duration = number == 0 ? .seconds(10) : .seconds(number == 1 ? 300 : 60)
          trial.expectWaiting(within: limit + .milliseconds(600))
          trial.expectEnd(of: transfer, within: .seconds(1))
          trial.expectComplaints()
          // Where only the request for a report is missing, the credential is accepted without it.
          let isTaken = hall.received == trial.credentials
          trial.check(
            isTaken || !trial.log.complaints(of: "Verifier").isEmpty, "the journal does not know of the silence")
          try trial.expectOrdinaryVisit()
        }
        guard striker.hasStruck else { return #expect(number > 6) }
      }
    }
  }

  @Test("A wallet ends its transfer if the verifier stops sending at any packet", arguments: Seeds.usual)
  func silentVerifier(seed: UInt64) async throws {
    try await LoopActor.run {
      for number in 0... {
        let hall = Hall(seed: seed)
        // Without the requests, their answers are missing, too.
        let striker = silence(hall, from: number) { $0.kind != .command }
        try Trial.run("verifier silent from packet \(number)", hall) { trial in
          let (transfer, _) = try trial.send()
          hall.time.run(until: { striker.hasStruck || !transfer.isLive }, limit: .seconds(10))
          guard striker.hasStruck else { return }
          trial.expectEnd(of: transfer, within: number == 0 ? .seconds(10) : .seconds(66))
          trial.expectWaiting(within: .seconds(1))
          trial.expectComplaints()
          try trial.expectOrdinaryVisit()
        }
        guard striker.hasStruck else { return #expect(number > 4) }
      }
    }
  }

  @Test("A wallet that sends nothing after connecting is disconnected after 10 s, and logged", arguments: Seeds.usual)
  func neverIdentified(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("no Identify", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let phone = Phone(in: trial.hall)
        phone.connect()
        trial.check(trial.hall.time.run(until: { phone.isConnected }, limit: .seconds(1)), "it is not connected")
        let begin = trial.hall.time.now
        trial.check(
          trial.hall.time.run(until: { !phone.isConnected }, limit: .seconds(11)), "it is still connected")
        let stay = begin.duration(to: trial.hall.time.now)
        trial.check(stay > .milliseconds(9900), "it was cut after \(stay)")
        trial.check(trial.hall.verifier.counters.silentLinks == 1, "it is not counted")
        trial.check(trial.log.complaints(of: "Verifier").count == 1, "the journal does not know")
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "A wallet that stays connected after the verdict is disconnected within 2.5 s", arguments: [true, false],
    Seeds.usual)
  func neverLeaves(accepted: Bool, seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("never leaves", Hall(seed: seed, conditions: Trial.quick, decision: .client)) { trial in
        let phone = Phone(in: trial.hall)
        try phone.deliver(sampleCredential(500))
        trial.check(trial.hall.time.run(until: { trial.hall.incoming?.state == .received }, limit: .seconds(2)), "lost")
        let incoming = try #require(trial.hall.incoming)
        trial.check(trial.hall.verifier.decide(incoming, accepted: accepted), "nothing to judge")
        trial.expectWaiting(within: .milliseconds(2600))
        trial.hall.time.advance(by: .milliseconds(50))
        trial.check(phone.values(of: .verificationStatus) == [[accepted ? 0 : 1]], "no verdict came")
        trial.check(phone.values(of: .disconnect) == [[1]], "it was not asked to leave")
        trial.hall.judge = { _ in true }
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("A wallet that sends only malformed writes is disconnected like one that sends nothing", arguments: Seeds.usual)
  func livelyJunk(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("junk for ever", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let phone = Phone(in: trial.hall)
        try phone.identify()
        phone.write(ResponseSize(5000).bytes(as: .bigEndian), to: .responseSize)
        trial.check(
          trial.hall.time.run(until: { trial.hall.incoming?.state == .transferring }, limit: .seconds(2)), "refused")
        let start = trial.hall.time.now
        while phone.isConnected, start.duration(to: trial.hall.time.now) < .seconds(2000) {
          phone.write([7, 7, 7], to: .submitResponse, as: .command)
          trial.hall.time.advance(by: .seconds(5))
        }
        let held = start.duration(to: trial.hall.time.now)
        trial.check(held < .seconds(70), "it held its place for \(held)")
        trial.check(trial.hall.verifier.counters.failedByTime == 1, "not counted")
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "Without a verdict the wallet is disconnected after 30 s, and the credential can be judged later",
    arguments: Seeds.usual)
  func nobodyJudges(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("no verdict", Hall(seed: seed, conditions: Trial.quick, decision: .client)) { trial in
        let (transfer, _) = try trial.send()
        trial.check(trial.hall.time.run(until: { transfer.state == .received }, limit: .seconds(5)), "not received")
        trial.expectWaiting(within: .milliseconds(30_600))
        trial.expectEnd(of: transfer, within: .seconds(1))
        trial.check(transfer.state == .undecided, "the wallet's end is \(transfer.state)")
        trial.expectComplaints()
        let incoming = try #require(trial.hall.incoming)
        trial.check(incoming.state == .received && incoming.credential == trial.credentials[0], "it is lost")
        trial.check(trial.hall.verifier.decide(incoming, accepted: false), "it cannot be judged any more")
        trial.check(!trial.hall.verifier.decide(incoming, accepted: true), "it can be judged twice")
        trial.check(incoming.state == .rejected, "the verdict is lost")
        trial.hall.judge = { _ in true }
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("A verdict after the wallet has disconnected is stored, and disturbs no other transfer", arguments: Seeds.usual)
  func judgedAfterwards(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("judged afterwards", Hall(seed: seed, conditions: Trial.quick, decision: .client)) { trial in
        let (transfer, _) = try trial.send()
        trial.check(trial.hall.time.run(until: { transfer.state == .received }, limit: .seconds(5)), "not received")
        let incoming = try #require(trial.hall.incoming)
        for link in trial.hall.air.links { trial.hall.air.cut(link) }
        trial.expectWaiting(within: .seconds(1))
        // A second wallet is connected when the verdict arrives.
        let (second, _) = try trial.send()
        trial.check(trial.hall.time.run(until: { second.state == .transferring }, limit: .seconds(5)), "no second one")
        trial.check(trial.hall.verifier.decide(incoming, accepted: true), "it cannot be judged")
        trial.check(incoming.state == .accepted, "the verdict is lost")
        trial.hall.judge = { _ in false }
        trial.check(trial.hall.finish(second, limit: .seconds(60)), "the second one does not end")
        trial.check(second.state == .rejected, "the second wallet's end is \(second.state)")
        trial.expectComplaints()
        trial.hall.judge = { _ in true }
        try trial.expectOrdinaryVisit()
      }
    }
  }
}
