import Bytes
import Common
import Crypto
import Testing

@testable import Tuvali

/// One session, from Identify to its end. Facts: tuvali.md sections 5 to 7.
@Suite("The verifier engine with one wallet")
struct VerifierTests {
  @Test("A session runs from the invitation to the verdict, and the next session has another key")
  func wholeVisit() throws {
    var bench = VerifierBench(isStarted: false)
    #expect(bench.handle(.start) == ["advertise OVPMOSIP"])
    #expect(bench.handle(.start) == [])
    #expect(bench.open() == [])
    let (identify, keys) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify) == ["advertise OVPMOSIP", "tell 1 secured v05"])
    #expect(bench.engine.visitor == VerifierBench.wallet)

    let frame = try keys.seal(VerifierBench.text)
    #expect(bench.announce(frame.count) == ["tell 1 announced"])
    try bench.resend(frame)
    #expect(bench.engine.progress?.bytesReceived == frame.count)
    #expect(bench.write([1], to: .transferReportRequest) == [])
    #expect(bench.pass(.milliseconds(40)) == ["unseal 1"])
    let result = try #require(bench.unsealing).run()
    #expect(bench.handle(.unsealed(VerifierBench.wallet, result)) == ["deliver 1"])
    #expect(bench.delivered == [VerifierBench.text])
    #expect(
      bench.handle(.kept(VerifierBench.wallet, nil)) == ["notify 1 transferReportResponse 010000", "tell 1 received"])
    #expect(
      bench.handle(.decided(VerifierBench.wallet, accepted: true))
        == ["notify 1 verificationStatus 00", "tell 1 status sent: accepted"])
    #expect(bench.handle(.linkClosed(VerifierBench.wallet)) == ["tell 1 ended"])
    #expect(bench.engine.visitor == nil)
    #expect(Set(bench.invitations.map(\.key)).count == 2)
    #expect(bench.engine.counters == .init(visits: 1, received: 1, chunks: 1))
    #expect(bench.engine.linkDeadline == nil)
  }

  @Test("The verifier answers in the dialect that the wallet uses", arguments: Dialect.Name.allCases)
  func dialects(name: Dialect.Name) throws {
    let dialect = Dialect.named(name)
    var bench = VerifierBench()
    let keys = try bench.admit(in: dialect)
    let frame = try keys.seal(Array(String(repeating: "abc", count: 10).utf8))
    try bench.send(frame, in: dialect)
    #expect(bench.report(in: dialect) == ["unseal 1"])
    let suffix = dialect == .v05 ? "" : " \(name)"
    #expect(bench.unsealAndKeep().contains("notify 1 transferReportResponse 010000" + suffix))
  }

  @Test("A rejected credential gives the wallet status 1")
  func rejection() throws {
    var bench = try VerifierBench(at: .deciding)
    #expect(
      bench.handle(.decided(VerifierBench.wallet, accepted: false))
        == ["notify 1 verificationStatus 01", "tell 1 status sent: rejected"])
    #expect(bench.handle(.decided(VerifierBench.wallet, accepted: true)) == [])
  }

  // MARK: Identify

  @Test("An Identify of 43 bytes is ignored, and one of 45 bytes is read")
  func identifyLength() throws {
    var bench = VerifierBench()
    _ = bench.open()
    let (identify, _) = try bench.identification()
    #expect(bench.write(Array(identify.bytes.dropLast()), to: .identify) == [])
    #expect(bench.write([], to: .identify) == [])
    #expect(bench.engine.counters.ignoredWrites == 2)
    #expect(bench.write(identify.bytes + [9], to: .identify) == ["advertise OVPMOSIP", "tell 1 secured v05"])
  }

  @Test("A repeated equal Identify changes nothing")
  func sameIdentifyAgain() throws {
    var bench = VerifierBench()
    _ = bench.open()
    let (identify, keys) = try bench.identification()
    _ = bench.write(identify.bytes, to: .identify)
    #expect(bench.write(identify.bytes, to: .identify) == [])
    try bench.send(keys.seal(VerifierBench.text))
    _ = bench.report()
    #expect(bench.unsealAndKeep().contains("deliver 1"))
  }

  @Test("A second, different Identify is ignored and counted, before and after the size", arguments: [false, true])
  func otherIdentify(isSizeAnnounced: Bool) throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    let (other, _) = try bench.identification(for: bench.invitations[0])
    if !isSizeAnnounced { #expect(bench.write(other.bytes, to: .identify) == []) }
    try bench.send(keys.seal(VerifierBench.text))
    if isSizeAnnounced { #expect(bench.write(other.bytes, to: .identify) == []) }
    #expect(bench.engine.counters.ignoredWrites == 1)
    _ = bench.report()
    #expect(bench.unsealAndKeep().contains("deliver 1"))
  }

  @Test("The private key of a QR code is destroyed 20 s after the Identify that replaced the code")
  func privateKeyGoes() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    let next = try #require(bench.engine.invitation)
    #expect(next.key != bench.invitations[0].key)
    _ = bench.pass(.seconds(20) - .nanoseconds(1))
    #expect(privateKeys(in: bench.engine).count == 2)
    #expect(bench.engine.deadline == bench.now.advanced(by: .nanoseconds(1)))
    _ = bench.pass(.nanoseconds(1))
    #expect(privateKeys(in: bench.engine).map(\.publicKey) == [next.key])
  }

  @Test("A wallet with a low-order key is refused with a named error, and advertising continues")
  func weakKey() throws {
    let lowOrder = [
      String(repeating: "00", count: 32),
      "01" + String(repeating: "00", count: 31),
      "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
      "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
      "ec" + String(repeating: "ff", count: 30) + "7f",
      "ed" + String(repeating: "ff", count: 30) + "7f",
      "ee" + String(repeating: "ff", count: 30) + "7f",
    ]
    for weak in try lowOrder.map(Hex.decode) {
      var bench = VerifierBench()
      _ = bench.open()
      let actions = bench.write([UInt8](repeating: 5, count: 12) + weak, to: .identify)
      #expect(actions == ["tell 1 TVV_UNK_002 protocolViolation", "notify 1 disconnect 01", "tell 1 ended"])
      #expect(bench.pass(.milliseconds(100)) == ["cut 1"])
      #expect(bench.engine.visitor == nil)
      #expect(bench.engine.counters.failed == 1)
      _ = try bench.admit(LinkID(2))
      #expect(bench.engine.visitor == LinkID(2))
    }
  }

  // MARK: What cannot be received

  @Test("A frame that cannot be decrypted, inflated or decoded ends the session with TVV_UNK_003")
  func unreadable() throws {
    let tampered = try #require(Vectors.shared.negative.first { $0.case == "tampered_tag" }?.frameHex?.bytes)
    var bench = VerifierBench()
    let keys = try bench.admit()
    var frames = [tampered, try keys.seal([0xFF, 0xFE]), try keys.seal([])]
    frames.append(try keys.seal(Array(String(repeating: "a", count: 2000).utf8)))
    for frame in frames {
      bench = VerifierBench { $0.credentialLimit = 1999 }
      _ = try bench.admit()
      try bench.send(frame)
      #expect(bench.report() == ["unseal 1"])
      let words = bench.unsealAndKeep()
      #expect(words.first?.hasPrefix("tell 1 TVV_UNK_003") == true)
      #expect(words.dropFirst() == ["notify 1 disconnect 01"])
      #expect(bench.delivered.isEmpty)
    }
  }

  @Test("A credential that could not be stored ends the transfer session without the report SUCCESS")
  func notKept() throws {
    var bench = try VerifierBench(at: .keeping)
    let full = TuvaliError(.verifierUnknown, .limitExceeded, "No room.")
    #expect(
      bench.handle(.kept(VerifierBench.wallet, full))
        == ["tell 1 TVV_UNK_001 limitExceeded", "notify 1 disconnect 01"])
  }

  @Test("An MTU below 67 ends a wallet's link with TVV_CON_001, before or after Identify")
  func smallMTU() throws {
    var bench = VerifierBench()
    #expect(bench.open(mtu: 66) == ["tell 1 TVV_CON_001 protocolViolation", "tell 1 ended"])
    #expect(bench.engine.counters.failed == 1)
    let (identify, _) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify) == ["refuse busy"])
    #expect(bench.pass(.milliseconds(100)) == ["cut 1"])
    #expect(bench.engine.visitor == nil)
    bench = VerifierBench()
    #expect(bench.open(mtu: 67) == [])
    for stage in VerifierBench.Stage.allCases {
      bench = try VerifierBench(at: stage)
      let words = bench.handle(.linkChanged(VerifierBench.wallet, mtu: 66))
      #expect(words == (stage.isUnderWay ? ["tell 1 TVV_CON_001 protocolViolation", "notify 1 disconnect 01"] : []))
    }
  }

  @Test("The chunk size follows the last MTU that was negotiated before the first chunk")
  func latestMTU() throws {
    var bench = VerifierBench()
    let keys = try bench.admit(mtu: 100)
    let frame = try keys.seal(VerifierBench.text)
    _ = bench.announce(frame.count)
    #expect(bench.handle(.linkChanged(VerifierBench.wallet, mtu: 517)) == [])
    try bench.resend(frame, mtu: 517)
    #expect(bench.report() == ["unseal 1"])
  }

  @Test("The verifier ignores writes to other characteristics or in another dialect")
  func strayWrites() throws {
    var bench = try VerifierBench(at: .ready)
    let stray = Characteristic.allCases.filter { $0.direction != .toVerifier }
    for characteristic in stray { #expect(bench.write([1], to: characteristic) == []) }
    #expect(bench.engine.counters.ignoredWrites == stray.count)
    #expect(bench.announce(100, in: .v04) == [])
    #expect(bench.engine.counters.ignoredWrites == stray.count + 1)
  }
}

extension VerifierEngine.Counters {
  init(visits: Int, received: Int, chunks: Int) {
    self.init()
    self.visits = visits
    self.received = received
    self.chunks = chunks
  }
}

/// All private keys inside a value, at any depth.
private func privateKeys(in value: Any) -> [X25519.PrivateKey] {
  if let key = value as? X25519.PrivateKey { return [key] }
  return Mirror(reflecting: value).children.flatMap { privateKeys(in: $0.value) }
}
