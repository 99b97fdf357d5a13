import Bytes
import Common
import Crypto
import Testing

@testable import Tuvali

/// One visit, from Identify to its end. Facts: tuvali.md sections 5 to 7.
@Suite("The verifier and one wallet")
struct VerifierTests {
  @Test("A visit runs from the invitation to the verdict, and the next one gets another key")
  func wholeVisit() throws {
    var bench = VerifierBench(isStarted: false)
    #expect(bench.handle(.start) == ["advertise OVPMOSIP"])
    #expect(bench.handle(.start) == [])
    #expect(bench.open() == [])
    let (identify, keys) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify) == ["stop advertising", "tell 1 secured v05"])
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
    #expect(bench.handle(.linkClosed(VerifierBench.wallet)) == ["tell 1 ended", "advertise OVPMOSIP"])
    #expect(bench.engine.visitor == nil)
    #expect(Set(bench.invitations.map(\.key)).count == 2)
    #expect(bench.engine.counters == .init(visits: 1, received: 1, chunks: 1))
    #expect(bench.engine.deadline == nil)
  }

  @Test("A visit in each dialect is answered in that dialect", arguments: Dialect.Name.allCases)
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

  @Test("A rejected credential gives the status 1")
  func rejection() throws {
    var bench = try VerifierBench(at: .deciding)
    #expect(
      bench.handle(.decided(VerifierBench.wallet, accepted: false))
        == ["notify 1 verificationStatus 01", "tell 1 status sent: rejected"])
    #expect(bench.handle(.decided(VerifierBench.wallet, accepted: true)) == [])
  }

  // MARK: Identify

  @Test("An Identify of 43 bytes is ignored, and one of 45 is read")
  func identifyLength() throws {
    var bench = VerifierBench()
    _ = bench.open()
    let (identify, _) = try bench.identification()
    #expect(bench.write(Array(identify.bytes.dropLast()), to: .identify) == [])
    #expect(bench.write([], to: .identify) == [])
    #expect(bench.engine.counters.ignoredWrites == 2)
    #expect(bench.write(identify.bytes + [9], to: .identify) == ["stop advertising", "tell 1 secured v05"])
  }

  @Test("An Identify that is written again changes nothing")
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

  @Test("Another Identify before the size is told again, and its keys hold")
  func otherIdentifyBeforeSize() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    let (identify, keys) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify) == ["tell 1 secured v05"])
    try bench.send(keys.seal(VerifierBench.text))
    _ = bench.report()
    #expect(bench.unsealAndKeep().contains("deliver 1"))
  }

  @Test("Another Identify after the size is ignored and counted")
  func otherIdentifyAfterSize() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    try bench.send(keys.seal(VerifierBench.text))
    let (identify, _) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify) == [])
    #expect(bench.engine.counters.ignoredWrites == 1)
    _ = bench.report()
    #expect(bench.unsealAndKeep().contains("deliver 1"))
  }

  @Test("A wallet with a low-order key is refused by name, and the invitation stays on the air")
  func weakKey() throws {
    for weak: [UInt8] in [[UInt8](repeating: 0, count: 32), [1] + [UInt8](repeating: 0, count: 31)] {
      var bench = VerifierBench()
      _ = bench.open()
      let actions = bench.write([UInt8](repeating: 5, count: 12) + weak, to: .identify)
      #expect(actions == ["tell 1 TVV_UNK_002 protocolViolation", "cut 1", "tell 1 ended"])
      #expect(bench.engine.visitor == nil)
      #expect(bench.engine.counters.failed == 1)
      _ = try bench.admit(LinkID(2))
      #expect(bench.engine.visitor == LinkID(2))
    }
  }

  // MARK: The size

  static let sizes: [(size: Int, code: String?)] = [
    (-1, "TVV_TRA_001 protocolViolation"), (Int(Int32.min), "TVV_TRA_001 protocolViolation"),
    (0, "TVV_TRA_001 protocolViolation"), (16, "TVV_TRA_001 protocolViolation"), (17, nil),
    (Limits.frameBytes(forCredential: 1000), nil),
    (Limits.frameBytes(forCredential: 1000) + 1, "TVV_TRA_001 limitExceeded"),
    (Int(Int32.max), "TVV_TRA_001 limitExceeded"),
  ]

  @Test("A size is a frame's, or it ends the visit with TVV_TRA_001 and Disconnect", arguments: sizes)
  func size(size: Int, code: String?) throws {
    var bench = VerifierBench { $0.credentialLimit = 1000 }
    _ = try bench.admit()
    let bits = UInt32(bitPattern: Int32(size))
    let actions = bench.write((0..<4).map { UInt8(truncatingIfNeeded: bits >> (24 - 8 * $0)) }, to: .responseSize)
    #expect(actions == code.map { ["tell 1 \($0)", "notify 1 disconnect 01"] } ?? ["tell 1 announced"])
  }

  @Test("A size of fewer than four bytes ends the visit with TVV_UNK_002; more than four are not read")
  func sizeLength() throws {
    for count in 0...3 {
      var bench = VerifierBench()
      _ = try bench.admit()
      #expect(
        bench.write([UInt8](repeating: 0, count: count), to: .responseSize)
          == ["tell 1 TVV_UNK_002 protocolViolation", "notify 1 disconnect 01"])
    }
    var bench = VerifierBench()
    _ = try bench.admit()
    #expect(bench.write([0, 0, 0, 17, 0xFF], to: .responseSize) == ["tell 1 announced"])
    #expect(bench.engine.progress?.bytesExpected == 17)
  }

  static let decimalSizes: [(String, String)] = [
    ("17", "announced"), ("0000000017", "announced"), ("16", "TVV_TRA_001 protocolViolation"),
    ("9999999999", "TVV_TRA_001 limitExceeded"), ("", "TVV_UNK_002 protocolViolation"),
    ("00000000017", "TVV_UNK_002 protocolViolation"), ("-17", "TVV_UNK_002 protocolViolation"),
    ("+17", "TVV_UNK_002 protocolViolation"), ("1 7", "TVV_UNK_002 protocolViolation"),
    ("17\n", "TVV_UNK_002 protocolViolation"), ("0x11", "TVV_UNK_002 protocolViolation"),
    ("١٧", "TVV_UNK_002 protocolViolation"), ("\0\0\0\u{11}", "TVV_UNK_002 protocolViolation"),
  ]

  @Test("In dialect 0.3 a size is one to ten decimal digits", arguments: decimalSizes)
  func decimalSize(text: String, words: String) throws {
    var bench = VerifierBench()
    _ = try bench.admit(in: .v03)
    #expect(bench.write(Array(text.utf8), to: .responseSize, in: .v03).first == "tell 1 " + words)
  }

  @Test("A size that needs more chunks than there are numbers is refused at a small MTU and taken at a large one")
  func chunkLimit() throws {
    let size = 60 * Limits.chunks
    for (mtu, size, isTaken) in [(67, size, true), (67, size + 1, false), (517, size + 1, true)] {
      var bench = VerifierBench()
      _ = try bench.admit(mtu: mtu)
      #expect(bench.announce(size).first == (isTaken ? "tell 1 announced" : "tell 1 TVV_TRA_001 limitExceeded"))
    }
  }

  @Test("A second size begins a new frame")
  func secondSize() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    let frame = try keys.seal(VerifierBench.text)
    try bench.send(Array(repeating: 1, count: 1000))
    try bench.send(frame)
    #expect(bench.engine.progress?.bytesReceived == frame.count)
    #expect(bench.report() == ["unseal 1"])
    #expect(bench.unsealAndKeep().contains("deliver 1"))
  }

  @Test("A second payload after the first is ignored")
  func secondPayload() throws {
    for stage in [VerifierBench.Stage.unsealing, .keeping, .deciding, .leaving, .closing] {
      var bench = try VerifierBench(at: stage)
      let ignored = bench.engine.counters.ignoredWrites
      #expect(bench.announce(100) == [])
      #expect(bench.write([0, 1, 0, 0, 0], to: .submitResponse) == [])
      #expect(bench.engine.counters.ignoredWrites == ignored + 2)
    }
  }

  // MARK: The report

  @Test("A report that is asked for before the size is ignored")
  func reportBeforeSize() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    #expect(bench.report() == [])
    #expect(bench.engine.counters.ignoredWrites == 1)
    #expect(bench.announce(17) == ["tell 1 announced"])
  }

  @Test("Only 1 as the first byte asks for a report")
  func singleBytes() throws {
    let vectors = Vectors.shared.singleByteMessages
    for value in [vectors.transferReportRequest.error, vectors.transferReportRequest.uninitialisedIgnored] {
      var bench = try VerifierBench(at: .receiving)
      #expect(bench.write(value.bytes, to: .transferReportRequest) == [])
      #expect(bench.write([], to: .transferReportRequest) == [])
      #expect(bench.engine.counters.ignoredWrites == 2)
    }
    var bench = VerifierBench()
    _ = try bench.admit()
    try bench.send(Array(repeating: 1, count: 1000), without: [2])
    let request = vectors.transferReportRequest.request.bytes
    #expect(bench.write(request + [2, 2], to: .transferReportRequest) == [])
    #expect(bench.pass(.milliseconds(40)) == ["notify 1 transferReportResponse 0000010002"])

    bench = try VerifierBench(at: .deciding)
    let accepted = Hex.encode(vectors.verificationStatus.accepted.bytes)
    #expect(
      bench.handle(.decided(VerifierBench.wallet, accepted: true)).first == "notify 1 verificationStatus \(accepted)")
    bench = try VerifierBench(at: .deciding)
    let rejected = Hex.encode(vectors.verificationStatus.rejected.bytes)
    #expect(
      bench.handle(.decided(VerifierBench.wallet, accepted: false)).first == "notify 1 verificationStatus \(rejected)")
    let disconnect = Hex.encode(vectors.disconnect.disconnect.bytes)
    #expect(bench.handle(.dismissed(VerifierBench.wallet)) == ["notify 1 disconnect \(disconnect)"])
  }

  @Test("What is missing is reported, resent, and the visit goes on")
  func missing() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    let text = Array((0..<400).map { "\($0 &* 7919 % 1000)" }.joined(separator: ",").utf8)
    let frame = try keys.seal(text)
    let count = ChunkLayout(mtu: 185).count(forFrame: frame.count)
    try #require(count >= 4)
    try bench.send(frame, without: [1, 3])
    #expect(bench.report() == ["notify 1 transferReportResponse 00000100010003"])
    #expect(bench.pass(.seconds(1)) == [])
    #expect(bench.report() == ["notify 1 transferReportResponse 00000100010003"])
    try bench.resend(frame, without: [3])
    #expect(bench.engine.counters.duplicateChunks == count - 2)
    #expect(bench.report() == ["notify 1 transferReportResponse 0000010003"])
    try bench.resend(frame)
    #expect(bench.report() == ["unseal 1"])
    #expect(bench.pass(.seconds(1)) == [])
    _ = bench.unsealAndKeep()
    #expect(bench.delivered == [text])
  }

  @Test("Success is told again when it is asked for again, and the credential is delivered once")
  func successAgain() throws {
    for stage in [VerifierBench.Stage.deciding, .leaving] {
      var bench = try VerifierBench(at: stage)
      #expect(bench.write([1], to: .transferReportRequest) == ["notify 1 transferReportResponse 010000"])
      #expect(bench.delivered.count == 1)
    }
    for stage in [VerifierBench.Stage.unsealing, .keeping] {
      var bench = try VerifierBench(at: stage)
      #expect(bench.report() == [])
    }
  }

  @Test("A report request while one is due asks for no second report")
  func oneReport() throws {
    var bench = try VerifierBench(at: .reporting)
    #expect(bench.write([1], to: .transferReportRequest) == [])
    #expect(bench.pass(.milliseconds(40)) == ["unseal 1"])
    #expect(bench.pass(.milliseconds(40)) == [])
  }

  @Test("A report without delay goes out at once")
  func noDelay() throws {
    var bench = VerifierBench { $0.reportDelay = .zero }
    _ = try bench.admit()
    try bench.send([UInt8](repeating: 1, count: 1000), without: [2])
    #expect(bench.write([1], to: .transferReportRequest) == ["notify 1 transferReportResponse 0000010002"])
    #expect(bench.pass(.seconds(1)) == [])
  }

  /// Every total of the table, and those whose limit is one less than exact arithmetic has it.
  static let seventyPercent: [(total: Int, tolerated: Int)] = {
    let rule = Vectors.shared.seventyPercentRule
    let table = rule.maxToleratedMissing.compactMap { key, value in Int(key).map { ($0, value) } }
    return table.sorted { $0.0 < $1.0 } + rule.totalsThatRoundDown.map { ($0, $0 * 7 / 10 - 1) }
  }()

  @Test("Up to 70 % may be missing, as double arithmetic has it; one more ends the visit with TVV_TRA_002")
  func seventyPercentRule() throws {
    #expect(Self.seventyPercent.count == 83)
    for (total, tolerated) in Self.seventyPercent {
      for missing in [tolerated, tolerated + 1] where missing > 0 && missing <= total {
        var bench = VerifierBench()
        _ = try bench.admit(mtu: 67)
        try bench.send([UInt8](repeating: 1, count: 60 * total), mtu: 67, without: Set(1...missing))
        let words = bench.report()
        if missing == tolerated {
          #expect(words.first?.hasPrefix("notify 1 transferReportResponse 00") == true, "\(missing) of \(total)")
        } else {
          #expect(
            words == ["tell 1 TVV_TRA_002 protocolViolation", "notify 1 disconnect 01"], "\(missing) of \(total)")
        }
      }
    }
  }

  // MARK: What cannot be received

  @Test("What does not decrypt, inflate, or read as text ends the visit with TVV_UNK_003 and no success")
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

  @Test("A credential that could not be kept ends the visit, and the wallet hears of no success")
  func notKept() throws {
    var bench = try VerifierBench(at: .keeping)
    let full = TuvaliError(.verifierUnknown, .limitExceeded, "No room.")
    #expect(
      bench.handle(.kept(VerifierBench.wallet, full))
        == ["tell 1 TVV_UNK_001 limitExceeded", "notify 1 disconnect 01"])
  }

  @Test("An MTU under 67 ends the link with TVV_CON_001, before Identify and after")
  func smallMTU() throws {
    var bench = VerifierBench()
    #expect(bench.open(mtu: 66) == ["tell 1 TVV_CON_001 protocolViolation", "tell 1 ended"])
    #expect(bench.engine.counters.failed == 1)
    let (identify, _) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify) == ["refuse", "tell 1 refused", "cut 1"])
    bench = VerifierBench()
    #expect(bench.open(mtu: 67) == [])
    for stage in VerifierBench.Stage.allCases {
      bench = try VerifierBench(at: stage)
      let words = bench.handle(.linkChanged(VerifierBench.wallet, mtu: 66))
      #expect(words == (stage.isUnderWay ? ["tell 1 TVV_CON_001 protocolViolation", "notify 1 disconnect 01"] : []))
    }
  }

  @Test("The latest MTU before the chunks is the one that counts")
  func latestMTU() throws {
    var bench = VerifierBench()
    let keys = try bench.admit(mtu: 100)
    let frame = try keys.seal(VerifierBench.text)
    _ = bench.announce(frame.count)
    #expect(bench.handle(.linkChanged(VerifierBench.wallet, mtu: 517)) == [])
    try bench.resend(frame, mtu: 517)
    #expect(bench.report() == ["unseal 1"])
  }

  @Test("Writes to what the wallet does not write, or in another dialect, are ignored")
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
