import Bytes
import Crypto
import Testing

@testable import Tuvali

/// The size, the chunks, the report. Facts: tuvali.md sections 3, 5 and 6.
@Suite("Frames received by the verifier engine")
struct VerifierFrameTests {
  // MARK: The size

  static let sizes: [(size: Int, code: String?)] = [
    (-1, "TVV_TRA_001 protocolViolation"), (Int(Int32.min), "TVV_TRA_001 protocolViolation"),
    (0, "TVV_TRA_001 protocolViolation"), (16, "TVV_TRA_001 protocolViolation"), (17, nil),
    (Limits.frameBytes(forCredential: 1000), nil),
    (Limits.frameBytes(forCredential: 1000) + 1, "TVV_TRA_001 limitExceeded"),
    (Int(Int32.max), "TVV_TRA_001 limitExceeded"),
  ]

  @Test("An invalid size ends the transfer with TVV_TRA_001 and Disconnect", arguments: sizes)
  func size(size: Int, code: String?) throws {
    var bench = VerifierBench { $0.credentialLimit = 1000 }
    _ = try bench.admit()
    let bits = UInt32(bitPattern: Int32(size))
    let actions = bench.write((0..<4).map { UInt8(truncatingIfNeeded: bits >> (24 - 8 * $0)) }, to: .responseSize)
    #expect(actions == code.map { ["tell 1 \($0)", "notify 1 disconnect 01"] } ?? ["tell 1 announced"])
  }

  @Test("A size of under 4 bytes ends the transfer with TVV_UNK_002, and bytes after the fourth are ignored")
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

  @Test("A size that needs too many chunks is refused at a small MTU and accepted at a large one")
  func chunkLimit() throws {
    let size = 60 * Limits.chunks
    for (mtu, size, isTaken) in [(67, size, true), (67, size + 1, false), (517, size + 1, true)] {
      var bench = VerifierBench()
      _ = try bench.admit(mtu: mtu)
      #expect(bench.announce(size).first == (isTaken ? "tell 1 announced" : "tell 1 TVV_TRA_001 limitExceeded"))
    }
  }

  @Test("A second size before the frame is complete starts a new frame")
  func secondSize() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    let frame = try keys.seal(VerifierBench.text)
    try bench.send(Array(repeating: 1, count: 1000), without: [6])
    try bench.send(frame)
    #expect(bench.engine.progress?.bytesReceived == frame.count)
    #expect(bench.report() == ["unseal 1"])
    #expect(bench.unsealAndKeep().contains("deliver 1"))
  }

  @Test("A second size after the last chunk is ignored, and the complete frame is processed")
  func secondSizeAfterAll() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    try bench.send(keys.seal(VerifierBench.text))
    #expect(bench.announce(100) == [])
    #expect(bench.engine.counters.ignoredWrites == 1)
    #expect(bench.report() == ["unseal 1"])
    #expect(bench.unsealAndKeep().contains("deliver 1"))
  }

  @Test("The verifier requests a single missing chunk again")
  func singleChunk() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    let frame = try keys.seal(VerifierBench.text)
    try bench.send(frame, without: [1])
    for _ in 0..<3 { #expect(bench.report() == ["notify 1 transferReportResponse 0000010001"]) }
    try bench.resend(frame)
    #expect(bench.report() == ["unseal 1"])
  }

  @Test("A second size and chunk after a complete frame are ignored")
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

  @Test("A report request before the credential's size is ignored")
  func reportBeforeSize() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    #expect(bench.report() == [])
    #expect(bench.engine.counters.ignoredWrites == 1)
    #expect(bench.announce(17) == ["tell 1 announced"])
  }

  @Test("A write requests a report from the verifier only if its first byte is 1")
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

  @Test("Missing chunks are reported and sent again, and the transfer continues")
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

  @Test("The report SUCCESS is repeated on request, and the credential is delivered once")
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

  @Test("A second report request neither delays the due report nor causes another one")
  func oneReport() throws {
    var bench = try VerifierBench(at: .reporting)
    #expect(bench.pass(.milliseconds(39)) == [])
    #expect(bench.write([1], to: .transferReportRequest) == [])
    #expect(bench.pass(.milliseconds(1)) == ["unseal 1"])
    #expect(bench.pass(.milliseconds(39)) == [])
  }

  @Test("With a report delay of zero a report is sent at once")
  func noDelay() throws {
    var bench = VerifierBench { $0.reportDelay = .zero }
    _ = try bench.admit()
    try bench.send([UInt8](repeating: 1, count: 1000), without: [2])
    #expect(bench.write([1], to: .transferReportRequest) == ["notify 1 transferReportResponse 0000010002"])
    #expect(bench.pass(.seconds(1)) == [])
  }

  /// Every total of the table, and those whose limit is one below that of exact arithmetic.
  static let seventyPercent: [(total: Int, tolerated: Int)] = {
    let rule = Vectors.shared.seventyPercentRule
    let table = rule.maxToleratedMissing.compactMap { key, value in Int(key).map { ($0, value) } }
    return table.sorted { $0.0 < $1.0 } + rule.totalsThatRoundDown.map { ($0, $0 * 7 / 10 - 1) }
  }()

  @Test("Up to 70% of the chunks may be missing; one more ends the transfer with TVV_TRA_002")
  func seventyPercentRule() throws {
    #expect(Self.seventyPercent.count == 83)
    for (total, tolerated) in Self.seventyPercent {
      for missing in [tolerated, tolerated + 1] where missing > 0 && missing <= total {
        var bench = VerifierBench()
        _ = try bench.admit(mtu: 67)
        try bench.send([UInt8](repeating: 1, count: 60 * total), mtu: 67, without: Set(1...missing))
        let words = bench.report()
        // The only chunk of a frame is requested again.
        if missing == tolerated || total == 1 {
          #expect(words.first?.hasPrefix("notify 1 transferReportResponse 00") == true, "\(missing) of \(total)")
        } else {
          #expect(
            words == ["tell 1 TVV_TRA_002 protocolViolation", "notify 1 disconnect 01"], "\(missing) of \(total)")
        }
      }
    }
  }

  @Test("Adding a chunk does not copy the memory of the frame")
  func inPlace() throws {
    let frame = [UInt8](repeating: 7, count: 1 << 20)
    let chunker = try Chunker(frame: frame, layout: ChunkLayout(mtu: 517), firstSequence: 1)
    var random = SeededRandom(seed: 1)
    let own = X25519.PrivateKey(randomFrom: &random)
    let keys = try SessionKeys(own: own, peer: own.publicKey, nonce: [])
    let assembler = Assembler(size: frame.count, layout: ChunkLayout(mtu: 517), firstSequence: 1)
    var state = VerifierSessionState.receiving(.init(assembler: assembler, reportAt: nil, keys: [keys]))
    var progress = VerifierEngine.Progress(mtu: 517)
    var places: [UInt] = []
    for sequence in chunker.sequences {
      let chunk = try #require(chunker.chunk(sequence))
      #expect(state.add(chunk, &progress) == .stored)
      places.append(Self.place(of: state))
    }
    // Doubling moves the memory some twenty times; a copy per chunk would move it two thousand times.
    #expect(zip(places, places.dropFirst()).count { $0 != $1 } < 40)
    #expect(progress.bytesReceived == frame.count)
    #expect(state.add(try #require(chunker.chunk(1)), &progress) == nil)
  }

  /// The address of the frame's payloads.
  private static func place(of state: VerifierSessionState) -> UInt {
    guard case .receiving(let reception) = state else { return 0 }
    let payloads = Mirror(reflecting: reception.assembler).descendant("arrived") as? [UInt8]
    return payloads?.withUnsafeBytes { UInt(bitPattern: $0.baseAddress) } ?? 0
  }

  @Test("An unexpected chunk does not change the verifier's state", arguments: VerifierBench.Stage.allCases)
  func strayChunk(stage: VerifierBench.Stage) throws {
    var bench = try VerifierBench(at: stage)
    let (deadline, progress) = (bench.engine.deadline, bench.engine.progress)
    let ignored = bench.engine.counters.ignoredWrites
    #expect(bench.write(AssemblerTests.chunk(9, [1, 2, 3]), to: .submitResponse) == [])
    #expect(bench.engine.counters.ignoredWrites == ignored + (stage == .receiving ? 0 : 1))
    #expect(bench.engine.deadline == deadline)
    #expect(bench.engine.progress == progress)
    if !stage.isUnderWay { return }
    _ = bench.handle(.dismissed(VerifierBench.wallet))
    #expect(bench.pass(.milliseconds(500)) == ["cut 1", "tell 1 ended"])
  }
}
