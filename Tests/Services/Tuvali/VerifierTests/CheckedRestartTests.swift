import Checking
import Common
import Crypto
import Hall
import Loop
import TestSupport
import Testing
import Transfers

@testable import Verifier

@Suite("Checks of credentials and restarts")
struct CheckedRestartTests {
  init() { EventLoop.shared.runInBackground() }

  typealias Step = StandInChecker.Step

  private static let claims = "{\"fullName\": \"Asha Example of Elsewhere\"}"
  private static let on = CheckPolicy(isOn: true)

  private static func verdict(_ word: String) -> [Step] {
    [.line(StandInChecker.verdict(word, reasons: ["someReason"], claims: claims)), .end]
  }

  @Test(
    "A checker's verdict survives a power loss, is not repeated, and its claims are encrypted on the disk"
  )
  func survives() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(check: Self.on, checker: { _ in Self.verdict("untrusted") })
      _ = try hall.visit(sampleCredential(500))
      hall.time.advance(by: .seconds(1))
      let before = try #require(hall.incoming?.verdict)
      #expect(before.word == .untrusted)
      #expect(
        !cabinet.disk.holds(anyOf: Array("Asha Example".utf8)) && !cabinet.disk.holds(anyOf: Array("untrusted".utf8)))
      cabinet.crash()
      let next = cabinet.hall(check: Self.on, checker: { _ in Self.verdict("valid") })
      next.restore()
      #expect(next.incoming?.verdict == before && next.incoming?.credential == sampleCredential(500))
      next.time.advance(by: .seconds(30))
      #expect(next.incoming?.verdict == before && next.checker.requests.isEmpty)
    }
  }

  @Test(
    "A credential that was not checked when the service ended is checked after the restart"
  )
  func unchecked() async throws {
    try await LoopActor.run {
      var (checked, unchecked) = (0, 0)
      for moment in stride(from: 0, through: 600, by: 20) {
        let cabinet = Cabinet()
        let hall = cabinet.hall(decision: .check, check: Self.on, checker: { _ in Self.verdict("valid") })
        hall.takes = false
        _ = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(500))
        hall.time.run(until: { hall.incoming?.state == .received }, limit: .seconds(5))
        hall.time.advance(by: .milliseconds(moment))
        cabinet.crash()
        let next = cabinet.hall(decision: .check, check: Self.on, checker: { _ in Self.verdict("valid") })
        next.takes = false
        next.restore()
        next.time.advance(by: .seconds(5))
        #expect(next.incoming?.state == .accepted && next.incoming?.verdict?.word == .valid, "after \(moment) ms")
        if next.checker.requests.isEmpty { checked += 1 } else { unchecked += 1 }
      }
      #expect(checked > 3 && unchecked > 3)
    }
  }

  @Test("An accepted credential that was not fetched has its claims after a restart")
  func accepted() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(decision: .check, check: Self.on, checker: { _ in Self.verdict("valid") })
      hall.takes = false
      _ = try hall.visit(sampleCredential(500))
      hall.time.advance(by: .seconds(1))
      #expect(hall.incoming?.state == .accepted)
      cabinet.crash()
      let next = cabinet.hall(decision: .check, check: Self.on)
      next.restore()
      #expect(next.incoming?.state == .accepted)
      #expect(next.incoming?.claims == "{\"fullName\":\"Asha Example of Elsewhere\"}")
    }
  }

  @Test("A check that failed is repeated after a restart")
  func failedBefore() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(check: Self.on, checker: { _ in [.line("garbage"), .end] })
      _ = try hall.visit(sampleCredential(500))
      hall.time.advance(by: .seconds(1))
      #expect(hall.incoming?.verdict?.reasons.map(\.code) == ["checkerReply"])
      cabinet.crash()
      let next = cabinet.hall(check: Self.on, checker: { _ in Self.verdict("expired") })
      next.restore()
      next.time.advance(by: .seconds(5))
      #expect(next.incoming?.verdict?.word == .expired)
    }
  }

  @Test("A disk fault while a checker's verdict is written loses neither credential nor verdict")
  func disk() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      let hall = cabinet.hall(check: Self.on, checker: { _ in Self.verdict("revoked") })
      _ = try hall.addWallet().send(hall.verifier.connectionURI, sampleCredential(500))
      hall.time.run(until: { hall.incoming?.state == .received }, limit: .seconds(5))
      cabinet.disk.fail { _ in 5 }
      hall.time.advance(by: .seconds(40))
      #expect(hall.incoming?.verdict?.word == .revoked && hall.incoming?.credential == sampleCredential(500))
      #expect(hall.verifier.vault.troubleInShort == "Verdicts on credentials are stored in memory only.")
      cabinet.disk.fail(nil)
      hall.time.advance(by: .seconds(61))
      #expect(hall.verifier.vault.trouble == nil)
      cabinet.crash()
      let next = cabinet.hall(check: Self.on)
      next.restore()
      #expect(next.incoming?.verdict?.word == .revoked && next.checker.requests.isEmpty)
    }
  }

  @Test("If there is no capacity for the claims, the checker's verdict is stored without them")
  func noRoom() async throws {
    try await LoopActor.run {
      let cabinet = Cabinet()
      cabinet.limits.maximumBytes = 2000
      let large = "{\"portrait\": \"\(String(repeating: "x", count: 3000))\"}"
      let hall = cabinet.hall(
        check: Self.on, checker: { _ in [.line(StandInChecker.verdict("valid", claims: large)), .end] })
      hall.takes = false
      _ = try hall.visit(sampleCredential(500))
      hall.time.advance(by: .seconds(1))
      #expect(hall.incoming?.verdict?.word == .valid && hall.incoming?.verdictDocument == nil)
      #expect(hall.incoming?.credential == sampleCredential(500))
      cabinet.crash()
      let next = cabinet.hall(check: Self.on, checker: { _ in Self.verdict("valid") })
      next.restore()
      #expect(next.incoming?.credential == sampleCredential(500))
    }
  }
}
