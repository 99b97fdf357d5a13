import Common
import Crypto
import TestSupport
import Testing

@testable import Tuvali

/// The codes that a phone may have read when the code is replaced, and their dependence on the link. Facts: tuvali.md
/// section 2.
@Suite("The verifier engine and its QR codes")
struct VerifierCodesTests {
  private static let second = LinkID(2)

  /// Sends a credential on a link whose wallet has identified itself.
  ///
  /// - Returns: the result of the decryption.
  private static func bring(_ keys: SessionKeys, on link: LinkID, _ bench: inout VerifierBench) throws -> [String] {
    try bench.send(keys.seal(VerifierBench.text), on: link)
    _ = bench.write([1], to: .transferReportRequest, on: link)
    _ = bench.pass(.milliseconds(40))
    let result = try #require(bench.unsealing).run()
    return bench.handle(.unsealed(link, result)) + bench.handle(.kept(link, nil))
  }

  private static func success(_ link: Int) -> [String] {
    ["deliver \(link)", "notify \(link) transferReportResponse 010000", "tell \(link) received"]
  }

  @Test("A wallet that connected before any QR code was shown transfers its credential, five times in a row")
  func linkOfTheMesh() throws {
    var bench = VerifierBench()
    _ = bench.pass(.seconds(3600))
    for number in 1...5 {
      _ = bench.handle(.linkOpened(VerifierBench.wallet, at: .zero))
      let (identify, keys) = try bench.identification()
      #expect(bench.write(identify.bytes, to: .identify) == ["advertise OVPMOSIP", "tell 1 secured v05"])
      #expect(try Self.bring(keys, on: VerifierBench.wallet, &bench) == Self.success(1), "transfer \(number)")
      _ = bench.handle(.decided(VerifierBench.wallet, accepted: true))
      _ = bench.pass(.seconds(2))
      #expect(bench.pass(.milliseconds(500)) == ["cut 1", "tell 1 ended"])
      // The link stays up for the mesh; only the verifier's session has ended.
      _ = bench.handle(.linkClosed(VerifierBench.wallet))
      _ = bench.pass(.seconds(60))
    }
    #expect(bench.engine.counters.received == 5 && bench.engine.counters.refused == 0)
  }

  @Test(
    "Two wallets with the same QR code are both served, in whatever order they connected"
  )
  func sameCode() throws {
    for isBefore in [true, false] {
      var bench = VerifierBench { $0.visitors = 2 }
      let code = try #require(bench.engine.invitation)
      if isBefore { _ = bench.open(Self.second) }
      _ = bench.open()
      let (identify, keys) = try bench.identification(for: code)
      #expect(bench.write(identify.bytes, to: .identify).first == "advertise OVPMOSIP")
      // The phone has seen the advertisement before, and connects two seconds after the code was replaced.
      _ = bench.pass(.seconds(2))
      if !isBefore { _ = bench.open(Self.second) }
      let (other, otherKeys) = try bench.identification(for: code)
      let words = bench.write(other.bytes, to: .identify, on: Self.second)
      // The code that is shown by then was not read by the second wallet, as far as its link shows.
      #expect(words == (isBefore ? [] : ["advertise OVPMOSIP"]) + ["tell 2 secured v05"])
      #expect(try Self.bring(otherKeys, on: Self.second, &bench) == Self.success(2))
      #expect(try Self.bring(keys, on: VerifierBench.wallet, &bench) == Self.success(1))
    }
  }

  @Test("Five wallets that connect with the same QR code are all served")
  func crowdWithOneCode() throws {
    var bench = VerifierBench { $0.visitors = 5 }
    let code = try #require(bench.engine.invitation)
    let links = (UInt64(1)...5).map { LinkID($0) }
    for link in links { _ = bench.open(link) }
    for link in links {
      let (identify, keys) = try bench.identification(for: code)
      _ = bench.write(identify.bytes, to: .identify, on: link)
      #expect(try Self.bring(keys, on: link, &bench) == Self.success(Int(link.number)))
    }
    #expect(Set(bench.invitations.map(\.key)).count == 2)
  }

  @Test("A credential for a QR code replaced 6 s before the link came up fails with wrongCode")
  func wrongCode() throws {
    var bench = VerifierBench { $0.visitors = 2 }
    let code = try #require(bench.engine.invitation)
    _ = try bench.admit()
    _ = bench.pass(.seconds(6))
    _ = bench.open(Self.second)
    let (identify, keys) = try bench.identification(for: code)
    _ = bench.write(identify.bytes, to: .identify, on: Self.second)
    let words = try Self.bring(keys, on: Self.second, &bench)
    #expect(words == ["tell 2 TVV_UNK_003 wrongCode", "notify 2 disconnect 01"])
    #expect(TuvaliError.wrongCode.sentence.contains("Scan the code that is shown now."))
  }

  @Test("A frame that no key decrypts fails with wrongCode, and one that decrypts to invalid text with another error")
  func otherFaults() throws {
    for (text, reason) in [(nil, "wrongCode"), ([0xFF, 0xFE], "protocolViolation")] as [([UInt8]?, String)] {
      var bench = VerifierBench()
      let keys = try bench.admit()
      var frame = try keys.seal(text ?? VerifierBench.text)
      if text == nil { frame[0] ^= 1 }
      try bench.send(frame)
      _ = bench.report()
      let unsealed = try #require(bench.unsealing).run()
      #expect(bench.handle(.unsealed(VerifierBench.wallet, unsealed)).first == "tell 1 TVV_UNK_003 \(reason)")
    }
  }

  @Test("At most 4 earlier keys are stored, for at most 20 s after their QR codes were replaced")
  func keysAlive() throws {
    var bench = VerifierBench { $0.visitors = 32 }
    for number in UInt64(1)...20 {
      _ = try bench.admit(LinkID(number))
      _ = bench.announce(100, on: LinkID(number))
      #expect(bench.engine.privateKeyCount <= 5)
    }
    #expect(bench.engine.privateKeyCount == 5)
    _ = bench.pass(.seconds(20))
    #expect(bench.engine.privateKeyCount == 1)
    _ = bench.handle(.stop)
    #expect(bench.engine.privateKeyCount == 0)
  }

  @Test("Wallets that send only Identify replace the QR code 4 times, then once in 5 s")
  func stableCode() throws {
    var bench = VerifierBench { $0.visitors = 32 }
    var replaced: [Int] = []
    for step in 0..<100 {
      let link = LinkID(UInt64(step) + 1)
      let before = bench.engine.invitation
      _ = try bench.admit(link)
      if bench.engine.invitation != before { replaced.append(step) }
      _ = bench.handle(.linkClosed(link))
      _ = bench.pass(.milliseconds(200))
    }
    // Twenty seconds.
    #expect(replaced.prefix(4) == [0, 1, 2, 3] && replaced.count == 7, "\(replaced)")
  }

  @Test("A QR code that was not replaced at Identify is replaced when the wallet announces its size")
  func replacedAtSize() throws {
    var bench = VerifierBench { $0.visitors = 32 }
    for number in UInt64(1)...4 { _ = try bench.admit(LinkID(number)) }
    let shown = bench.engine.invitation
    let keys = try bench.admit(LinkID(5))
    #expect(bench.engine.invitation == shown)
    let frame = try keys.seal(VerifierBench.text)
    #expect(bench.announce(frame.count, on: LinkID(5)) == ["advertise OVPMOSIP", "tell 5 announced"])
    try bench.resend(frame, on: LinkID(5))
    _ = bench.write([1], to: .transferReportRequest, on: LinkID(5))
    _ = bench.pass(.milliseconds(40))
    let result = try #require(bench.unsealing).run()
    #expect(bench.handle(.unsealed(LinkID(5), result)) == ["deliver 5"])
    // Wallets that transfer their credentials cause a new code each time.
    for number in UInt64(6)...20 {
      let before = bench.engine.invitation
      _ = try bench.admit(LinkID(number))
      _ = bench.announce(100, on: LinkID(number))
      #expect(bench.engine.invitation != before)
    }
  }

  // MARK: One link, several transfers

  @Test("A new Identify on a session's link starts another transfer, at the earliest 2 s after the first")
  func anotherTransfer() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    _ = bench.announce(1000)
    _ = bench.pass(.seconds(2) - .nanoseconds(1))
    let (early, _) = try bench.identification()
    #expect(bench.write(early.bytes, to: .identify) == [])
    #expect(bench.engine.counters.ignoredWrites == 1)
    _ = bench.pass(.nanoseconds(1))
    let shown = bench.engine.invitation
    let (identify, keys) = try bench.identification()
    #expect(
      bench.write(identify.bytes, to: .identify) == [
        "tell 1 TVV_UNK_001 peerEnded", "tell 1 ended", "tell 1 secured v05",
      ])
    #expect(bench.engine.invitation == shown)
    #expect(try Self.bring(keys, on: VerifierBench.wallet, &bench) == Self.success(1))
    #expect(bench.engine.counters.visits == 2)
  }

  @Test(
    "Identify starts no second transfer while a frame is being stored or a wallet is being disconnected")
  func noOtherTransfer() throws {
    for stage in [VerifierBench.Stage.unsealing, .keeping, .closing] {
      var bench = try VerifierBench(at: stage)
      bench.now = bench.now.advanced(by: .seconds(3))
      let (identify, _) = try bench.identification()
      #expect(bench.write(identify.bytes, to: .identify) == [])
    }
    for stage in [VerifierBench.Stage.deciding, .leaving] {
      var bench = try VerifierBench(at: stage)
      bench.now = bench.now.advanced(by: .seconds(3))
      let (identify, _) = try bench.identification()
      #expect(bench.write(identify.bytes, to: .identify) == ["tell 1 ended", "tell 1 secured v05"])
    }
  }

  @Test("Repeating Identify does not extend the time for which a wallet may hold its session slot")
  func beginningAnew() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    _ = bench.announce(100_000)
    for _ in 1...3 {
      _ = bench.pass(.seconds(2))
      let (identify, _) = try bench.identification()
      _ = bench.write(identify.bytes, to: .identify)
      _ = bench.announce(100_000)
    }
    _ = try bench.admit(Self.second)
    let words = bench.announce(1000, on: Self.second)
    #expect(words.first == "tell 1 TVV_UNK_001 timeout" && words.last == "tell 2 announced", "\(words)")
  }
}

extension VerifierEngine {
  /// Number of stored private keys of codes.
  fileprivate var privateKeyCount: Int { storedProperty("keys", of: self, as: InvitationKeys.self)?.count ?? -1 }
}
