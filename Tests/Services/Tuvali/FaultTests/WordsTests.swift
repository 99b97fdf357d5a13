import Bytes
import Common
import Foundation
import Hall
import Journal
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// The lines in the journal, and the helpers that read them.
@Suite("Journal entries of the verifier", .serialized)
struct WordsTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("An ordinary transfer is logged without a warning", arguments: Seeds.usual)
  func ordinary(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("no fault", Hall(seed: seed, conditions: Trial.quick)) { trial in
        try trial.expectOrdinaryVisit()
        trial.check(!trial.log.records.isEmpty, "nothing was logged")
        trial.check(!trial.log.records.contains { $0.level >= .warning }, "there is a warning")
        trial.check(trial.hall.kioskRandom.drawn(32).count == 2, "the kiosk's keys are not on record")
        trial.check(trial.hall.walletRandoms[0].drawn(32).count == 1, "the wallet's key is not on record")
      }
    }
  }

  @Test("A checker's verdict is logged with its reason codes and without credential or claims")
  func verdict() async throws {
    try await LoopActor.run {
      let claim = "Asha Example of Elsewhere"
      let line = StandInChecker.verdict("untrusted", reasons: ["issuerUnknown"], claims: "{\"fullName\": \"\(claim)\"}")
      let hall = Hall(
        conditions: Trial.quick, decision: .client, check: CheckPolicy(isOn: true),
        checker: { _ in [.line(line), .end] })
      try Trial.run("a checked credential", hall) { trial in
        let (transfer, _) = try trial.send()
        trial.check(hall.finish(transfer), "the visit does not end")
        let told = trial.log.records.filter { $0.id == .credentialChecked }
        trial.check(told.map(\.text) == ["The credential is untrusted (issuerUnknown)"], "\(told.map(\.text))")
        trial.check(trial.log.shown(of: [Array(claim.utf8)]) == 0, "a claim is in the journal")
        trial.check(
          !trial.log.records.contains { $0.text.contains("Residents Office") }, "the issuer is in the journal")
      }
    }
  }

  @Test("The leak search detects a secret in the journal in each of its encodings", arguments: 0..<5)
  func spellings(form: Int) async {
    await LoopActor.run {
      let secret = (0..<32).map { UInt8(ascii: "A") + $0 }
      let spelled = [
        String(decoding: secret, as: UTF8.self), Hex.encode(secret), Hex.encode(secret).uppercased(),
        Data(secret).base64EncodedString(), Base64URL.encode(secret),
      ][form]
      let log = CapturedLog()
      defer { log.close() }
      #expect(log.shown(of: [secret]) == 0)
      Log.shared.debug("It is \(spelled)!")
      #expect(log.shown(of: [secret]) == 1)
    }
  }

  @Test(
    "A wallet that fails repeatedly gets 6 journal lines a minute, and further ones are counted",
    arguments: Seeds.usual)
  func repeatedFailures(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("again and again", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let phone = Phone(in: trial.hall)
        for _ in 0..<30 {
          phone.connect(mtu: 23)
          trial.hall.time.advance(by: .seconds(1))
        }
        trial.check(trial.log.complaints(of: "Verifier").count == 6, "\(trial.log.complaints(of: "Verifier").count)")
        trial.hall.time.advance(by: .seconds(60))
        phone.connect(mtu: 23)
        trial.hall.time.advance(by: .seconds(1))
        trial.check(
          trial.log.records.contains { $0.text.hasPrefix("24 transfers and warnings") }, "what was left out is not told"
        )
        try trial.expectOrdinaryVisit()
      }
    }
  }
}
