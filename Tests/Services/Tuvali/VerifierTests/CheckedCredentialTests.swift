import Air
import Checking
import Common
import Crypto
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// The service with a checker in virtual time.
@Suite("Verdicts given by the credential checker")
struct CheckedCredentialTests {
  init() { EventLoop.shared.runInBackground() }

  typealias Step = StandInChecker.Step

  static func verdict(_ word: String, _ reasons: [String] = [], claims: String = "{\"fullName\": \"Asha Example\"}")
    -> [Step]
  {
    [.line(StandInChecker.verdict(word, reasons: reasons, claims: claims)), .end]
  }

  /// A hall where the service decides by the checker's verdict.
  @LoopActor
  private static func hall(
    _ check: CheckPolicy = CheckPolicy(isOn: true), decision: VerifierService.Settings.Decision = .check,
    _ answer: @escaping @LoopActor ([UInt8]) -> [Step]
  ) -> Hall {
    let hall = Hall(decision: decision, check: check, checker: answer)
    hall.takes = false
    return hall
  }

  // MARK: Decisions

  @Test(
    "Decision=check accepts `valid`, rejects other verdicts, and leaves undecided credentials waiting",
    arguments: CheckVerdict.Word.allCases, CheckPolicy.OnUndecided.allCases)
  func decisions(word: CheckVerdict.Word, onUndecided: CheckPolicy.OnUndecided) async throws {
    try await LoopActor.run {
      let hall = Self.hall(CheckPolicy(isOn: true, onUndecided: onUndecided)) { _ in
        Self.verdict(word.rawValue, ["someReason"])
      }
      let outgoing = try hall.visit(sampleCredential(500)).outgoing
      let expected: Transfer.State =
        switch (word, onUndecided) {
        case (.valid, _): .accepted
        case (.undecided, .hold): .received
        default: .rejected
        }
      let incoming = try #require(hall.incoming)
      #expect(incoming.state == expected)
      #expect(outgoing.state == (expected == .received ? .undecided : expected))
      let verdict = try #require(incoming.verdict)
      #expect(verdict.word == word && verdict.reasons.map(\.code) == ["someReason"])
      // A rejected credential leaves only the words of its verdict.
      #expect((incoming.claims != nil) == (expected != .rejected) && (incoming.text != nil) == (expected != .rejected))
    }
  }

  @Test(
    "With Decision=client the checker's verdict neither accepts nor rejects a credential",
    arguments: CheckVerdict.Word.allCases)
  func client(word: CheckVerdict.Word) async throws {
    try await LoopActor.run {
      let hall = Self.hall(decision: .client) { _ in Self.verdict(word.rawValue) }
      _ = try hall.visit(sampleCredential(500))
      #expect(hall.incoming?.state == .received)
    }
  }

  @Test("Decision=check without Check=yes accepts nothing, and the verifier reports this")
  func withoutCheck() async throws {
    try await LoopActor.run {
      let hall = Self.hall(CheckPolicy()) { _ in Self.verdict("valid") }
      _ = try hall.visit(sampleCredential(500))
      #expect(hall.incoming?.state == .received && hall.incoming?.check == Transfer.Check.none)
      #expect(hall.checker.requests.isEmpty && hall.verifier.checkerTrouble.contains("needs Check=yes"))
    }
  }

  static let failures: [(name: String, code: String, steps: [Step])] = [
    ("half of a reply", "checkerFailed", [.send(Array("{\"verdict\": \"valid\", \"rea".utf8)), .end]),
    ("no reply", "checkerFailed", [.wait(.seconds(2)), .end]),
    ("a hang", "checkerTimedOut", []),
    ("a hang within the reply", "checkerTimedOut", [.send(Array("{\"verdict\": \"valid\"".utf8))]),
    ("a verdict, and no end", "checkerTimedOut", [.line(StandInChecker.verdict("valid"))]),
    ("two verdicts", "checkerReply", verdict("valid").dropLast() + verdict("valid")),
    ("garbage", "checkerReply", [.line("valid"), .end]),
    ("300 KiB", "checkerReply", [.send([UInt8](repeating: 0x7B, count: 300 << 10)), .end]),
    ("an unknown verdict", "checkerReply", verdict("genuine")),
  ]

  @Test(
    "If the checker fails, the credential stays undecided with a named reason, and the next phone is served",
    arguments: 0..<failures.count)
  func failing(index: Int) async throws {
    try await LoopActor.run {
      let failure = Self.failures[index]
      let hall = Self.hall { _ in failure.steps }
      let credential = sampleCredential(500)
      let outgoing = try hall.visit(credential).outgoing
      let incoming = try #require(hall.incoming)
      let verdict = try #require(incoming.verdict)
      #expect(verdict.word == .undecided && verdict.reasons.map(\.code) == [failure.code], "\(failure.name)")
      #expect(incoming.state == .received && incoming.credential == credential, "\(failure.name)")
      #expect(outgoing.state != .accepted, "\(failure.name)")
      #expect(hall.verifier.checks.counters == .init(checked: 0, valid: 0, failed: 1))
      hall.checker.answer = { _ in Self.verdict("valid") }
      let next = try hall.visit(sampleCredential(400)).outgoing
      #expect(next.state == .accepted)
    }
  }

  @Test(
    "While the checker is missing, credentials wait, and all are checked when it appears")
  func missing() async throws {
    try await LoopActor.run {
      let hall = Self.hall(CheckPolicy(isOn: true, onUndecided: .reject)) {
        $0 == sampleCredential(500) ? Self.verdict("valid") : Self.verdict("invalid")
      }
      hall.checker.isThere = false
      _ = try hall.visit(sampleCredential(500))
      _ = try hall.visit(sampleCredential(501))
      #expect(
        hall.verifier.checkerTrouble.contains("earshot-check.socket") && hall.verifier.statusLine.contains("Check=no"))
      #expect(hall.verifier.transfers.transfers.map(\.state) == [.received, .received])
      hall.checker.isThere = true
      hall.time.advance(by: .seconds(62))
      #expect(hall.verifier.checkerTrouble.isEmpty && !hall.verifier.statusLine.contains("Check=no"))
      #expect(hall.verifier.transfers.transfers.map(\.state) == [.accepted, .rejected])
    }
  }

  @Test("Of four checks two run at a time, and all complete")
  func crowd() async throws {
    try await LoopActor.run {
      let hall = Self.hall { _ in [.wait(.seconds(3))] + Self.verdict("valid") }
      var wallets: [Transfer] = []
      for index in 0..<4 {
        wallets.append(try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(500 + index)))
        hall.time.advance(by: .milliseconds(700))
      }
      let isDone = hall.time.run(until: { wallets.allSatisfy { $0.state.isEnd } }, limit: .seconds(60))
      #expect(isDone && wallets.allSatisfy { $0.state == .accepted } && hall.checker.mostOpen == 2)
    }
  }

  @Test(
    "A verdict given by a program ends the check, and its later result is ignored")
  func judgedMeanwhile() async throws {
    try await LoopActor.run {
      let hall = Self.hall(decision: .client) { _ in [.wait(.seconds(5))] + Self.verdict("valid") }
      _ = try hall.visit(sampleCredential(500), limit: .seconds(2))
      let incoming = try #require(hall.incoming)
      #expect(incoming.check == .pending && hall.checker.open == 1)
      let isJudged = hall.verifier.decide(incoming, accepted: false)
      #expect(isJudged && hall.checker.open == 0 && incoming.check == Transfer.Check.none)
      hall.time.advance(by: .seconds(30))
      #expect(incoming.check == Transfer.Check.none && incoming.state == .rejected)
    }
  }

  @Test("Each check of a credential is signalled once, and a reload applies `Check=`")
  func reload() async throws {
    try await LoopActor.run {
      let hall = Self.hall(CheckPolicy(), decision: .client) { _ in Self.verdict("expired", ["expired"]) }
      var announced: [Int] = []
      hall.verifier.observe(changed: {}, received: { _ in }, checked: { announced.append($0.number) })
      _ = try hall.visit(sampleCredential(500))
      let incoming = try #require(hall.incoming)
      #expect(incoming.check == Transfer.Check.none)
      var settings = hall.verifier.settings
      settings.check.isOn = true
      hall.verifier.apply(settings)
      #expect(incoming.check == .pending)
      settings.check.isOn = false
      hall.verifier.apply(settings)
      #expect(incoming.check == Transfer.Check.none && hall.checker.open == 0)
      settings.check.isOn = true
      hall.verifier.apply(settings)
      hall.time.advance(by: .seconds(5))
      hall.verifier.apply(settings)
      hall.time.advance(by: .seconds(5))
      #expect(announced == [incoming.number])
      let verdict = try #require(incoming.verdict)
      #expect(verdict.word == .expired)
    }
  }

  @Test("The claims of an accepted credential are erased when the credential is fetched")
  func taken() async throws {
    try await LoopActor.run {
      let hall = Self.hall { _ in Self.verdict("valid") }
      _ = try hall.visit(sampleCredential(500))
      let incoming = try #require(hall.incoming)
      let verdict = try #require(incoming.verdict)
      #expect(verdict.word == .valid && incoming.claims == "{\"fullName\":\"Asha Example\"}")
      hall.verifier.taken(incoming)
      let after = try #require(incoming.verdict)
      #expect(after.word == .valid && incoming.claims == nil && incoming.verdictDocument == nil)
    }
  }
}
