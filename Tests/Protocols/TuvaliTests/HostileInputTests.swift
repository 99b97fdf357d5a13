import Bytes
import Common
import Crypto
import Testing

@testable import Tuvali

/// Under any input nothing traps, nothing grows without bound, and the engines recover.
@Suite("Random and mutated Tuvali input")
struct HostileInputTests {
  static let count = 10_000

  /// Random bytes, mostly short.
  static func random(_ dice: inout Dice) -> [UInt8] {
    dice.bytes(dice.below(dice.below(8) == 0 ? 600 : 60))
  }

  /// A valid value with a few bytes changed, cut, added or doubled.
  static func mutated(_ value: [UInt8], _ dice: inout Dice) -> [UInt8] {
    var value = value
    for _ in 0...dice.below(3) {
      let index = dice.below(value.count + 1)
      switch dice.below(5) {
      case 0 where index < value.count: value[index] ^= 1 << UInt8(dice.below(8))
      case 1 where index < value.count: value[index] = [0, 1, 0x7F, 0x80, 0xFF][dice.below(5)]
      case 2: value.removeSubrange(index...)
      case 3: value.insert(UInt8(truncatingIfNeeded: dice.next()), at: index)
      default: value += value.prefix(dice.below(20))
      }
    }
    return value
  }

  /// Tries 10,000 random values, then 10,000 mutations of values in `good`.
  private func throwAt(seed: UInt64, good: [[UInt8]], _ decode: ([UInt8], inout Dice) -> Void) {
    var dice = Dice(seed)
    for _ in 0..<Self.count { decode(Self.random(&dice), &dice) }
    for _ in 0..<Self.count { decode(Self.mutated(good[dice.below(good.count)], &dice), &dice) }
  }

  // MARK: Decoders

  @Test("An accepted invitation is written and read again unchanged, and others are refused with named errors")
  func invitation() {
    let good = InvitationTests.accepted.map { Array($0.text.utf8) }
    var read = 0
    throwAt(seed: 1, good: good) { bytes, _ in
      do throws(TuvaliError) {
        let invitation = try Invitation(reading: String(decoding: bytes, as: UTF8.self))
        read += 1
        for form in [Invitation.Form.uri, .json]
        where (try? Invitation(reading: invitation.text(as: form))) != invitation {
          Issue.record("\(invitation.text(as: form))")
        }
      } catch {
        if error.errorCode != .walletInvalidURI { Issue.record("\(error)") }
      }
    }
    #expect(read > 100)
  }

  @Test("An Identify is read from any value of 44 bytes or more")
  func identify() {
    throwAt(seed: 2, good: [Vectors.shared.identify.payloadHex.bytes]) { bytes, _ in
      let identify = try? Identify(reading: bytes)
      if (identify != nil) != (bytes.count >= 44) || identify.map({ $0.bytes != Array(bytes.prefix(44)) }) ?? false {
        Issue.record("\(Hex.encode(bytes))")
      }
    }
  }

  @Test("Any decoded size is the size of a possible frame within the limit")
  func responseSize() {
    let good = [17, 100, 5000].flatMap { size in
      [ResponseSize(size).bytes(as: .bigEndian), ResponseSize(size).bytes(as: .asciiDecimal)]
    }
    throwAt(seed: 3, good: good) { bytes, _ in
      for encoding in [Dialect.SizeEncoding.bigEndian, .asciiDecimal] {
        let size = try? ResponseSize(reading: bytes, as: encoding).checked(limit: 5000)
        if let size, !(17...5000).contains(size) { Issue.record("\(size)") }
      }
    }
  }

  @Test("A decoded report has as many chunk numbers as its bytes contain")
  func report() {
    throwAt(seed: 4, good: Vectors.shared.transferReports.map(\.frameHex.bytes)) { bytes, _ in
      guard case .missing(let sequences, _)? = try? TransferReport(reading: bytes) else { return }
      if sequences.count != (bytes.count - 3) / 2 { Issue.record("\(Hex.encode(bytes))") }
    }
  }

  @Test("An assembler holds at most the size of the frame, and completes the frame despite random chunks")
  func assembler() throws {
    let frame = noise(1000, seed: 4)
    let layout = ChunkLayout(mtu: 100)
    let chunker = try Chunker(frame: frame, layout: layout, firstSequence: 1)
    let good = chunker.sequences.compactMap { chunker.chunk($0) }
    var assembler = Assembler(size: 1000, layout: layout, firstSequence: 1)
    _ = assembler.add(good[0])
    throwAt(seed: 5, good: good) { bytes, dice in
      // Half of the values have a valid CRC; otherwise hardly any would pass it.
      var bytes = bytes
      if bytes.count > 4, dice.below(2) == 0 {
        let crc = CRC16.kermit(bytes[4...])
        (bytes[2], bytes[3]) = (UInt8(crc >> 8), UInt8(crc & 0xFF))
      }
      _ = assembler.add(bytes)
      if assembler.receivedBytes > 1000 || assembler.missing < 0 { Issue.record("\(assembler.receivedBytes)") }
    }
    for chunk in good { _ = assembler.add(chunk) }
    #expect(assembler.frame() == frame)
  }

  @Test("An assembler of any size and MTU accepts or refuses any chunk without a crash")
  func anyAssembler() {
    var dice = Dice(6)
    for _ in 0..<2000 {
      var assembler = Assembler(
        size: dice.below(3) == 0 ? dice.below(100) : dice.below(1 << 31), layout: ChunkLayout(mtu: dice.below(600)),
        firstSequence: dice.below(2))
      for _ in 0..<5 {
        let payload = dice.bytes(dice.below(510))
        _ = assembler.add(AssemblerTests.chunk(dice.below(1 << 16), payload))
      }
      #expect(assembler.missingSequences(limit: 5).count == min(5, assembler.missing))
      #expect(assembler.receivedBytes <= assembler.size)
    }
  }

  // MARK: The verifier

  @Test("After 300 random sequences of events the verifier serves the next wallet")
  func verifierScripts() throws {
    var (visits, received) = (0, 0)
    for seed in UInt64(0)..<300 {
      var dice = Dice(seed)
      var bench = VerifierBench {
        $0.credentialLimit = 10_000
        $0.visitors = Int(1 + seed % 3)
      }
      for _ in 0..<100 {
        let words = verifierStep(&bench, &dice)
        if words.count > 24 { Issue.record("seed \(seed): \(words)") }
        for progress in bench.engine.visitors.compactMap({ bench.engine.progress(of: $0) })
        where progress.bytesReceived > progress.bytesExpected { Issue.record("seed \(seed): \(progress)") }
        let latest = bench.now.advanced(by: .seconds(300))
        if let deadline = bench.engine.deadline, deadline > latest { Issue.record("seed \(seed): \(deadline)") }
      }
      _ = bench.handle(.start)
      _ = bench.handle(.room(.boundless))
      for _ in 0..<60 {
        guard let deadline = bench.engine.deadline else { break }
        _ = bench.pass(max(.zero, bench.now.duration(to: deadline)))
      }
      #expect(bench.engine.deadline == nil, "seed \(seed)")
      visits += bench.engine.counters.visits
      received += bench.engine.counters.received
      bench.delivered = []
      try bench.receive()
      #expect(bench.delivered == [VerifierBench.text], "seed \(seed)")
    }
    // The scripts reach all stages.
    #expect(visits > 300 && received > 10, "\(visits) visits, \(received) received")
  }

  private func verifierStep(_ bench: inout VerifierBench, _ dice: inout Dice) -> [String] {
    let anybody = LinkID(UInt64(1 + dice.below(4)))
    let visitors = bench.engine.visitors
    let visitor = visitors.isEmpty ? anybody : visitors[dice.below(visitors.count)]
    let link = dice.below(2) == 0 ? visitor : anybody
    let dialect = dice.below(10) == 0 ? Dialect.v04 : .v05
    let characteristic = Characteristic.allCases[dice.below(9)]
    switch dice.below(29) {
    case 0, 1:
      bench.seeInvitation()
      return bench.handle(.linkOpened(link, at: bench.now))
    case 2: return bench.handle(.linkClosed(link))
    case 3: return bench.handle(.linkChanged(link, mtu: [23, 66, 67, 185, 517, .max, .min][dice.below(7)]))
    case 4, 5, 6:
      guard let identify = try? bench.identification().0.bytes else { return [] }
      return bench.write(identify, to: .identify, on: link, in: dialect)
    case 7:
      return bench.write(Self.mutated([UInt8](repeating: 1, count: 44), &dice), to: .identify, on: link, in: dialect)
    case 8:
      return bench.write(
        ResponseSize(17 + dice.below(2000)).bytes(as: .bigEndian), to: .responseSize, on: link, in: dialect)
    case 9:
      // Does everything that the wallet requests, at once.
      let size = ResponseSize(60).bytes(as: .bigEndian)
      return bench.write(size, to: .responseSize, on: link)
        + bench.write(AssemblerTests.chunk(1, dice.bytes(60)), to: .submitResponse, on: link)
        + bench.write([1], to: .transferReportRequest, on: link) + bench.pass(.milliseconds(40))
    case 10: return bench.write(Self.random(&dice), to: .responseSize, on: link, in: dialect)
    case 11, 12, 13, 14:
      let payload = dice.bytes([60, 178, 505, dice.below(510)][dice.below(4)])
      return bench.write(AssemblerTests.chunk(dice.below(4), payload), to: .submitResponse, on: link, in: dialect)
    case 15, 16: return bench.write([1], to: .transferReportRequest, on: link, in: dialect)
    case 17: return bench.write(Self.random(&dice), to: characteristic, on: link, in: dialect)
    case 18, 24, 25:
      guard let unsealing = bench.unsealing else { return [] }
      return bench.handle(.unsealed(link, dice.below(4) == 0 ? unsealing.run() : .success([0x7B])))
    case 19, 26, 27: return bench.handle(.kept(link, dice.below(4) == 0 ? .weakKey : nil))
    case 20: return bench.handle(.decided(link, accepted: dice.below(2) == 0))
    case 21: return dice.below(4) == 0 ? bench.handle(.dismissed(link)) : []
    case 23: return bench.handle(.room(.init(credentials: dice.below(4), bytes: dice.below(3000))))
    case 22: return dice.below(8) == 0 ? bench.handle(dice.below(2) == 0 ? .stop : .start) : []
    default: return bench.pass(.milliseconds([1, 40, 500, 2000, 10_000, 60_000][dice.below(6)]))
    }
  }

  // MARK: The wallet

  @Test("In 1,000 random sequences of events the wallet respects its window and ends once, in time")
  func walletScripts() throws {
    for seed in UInt64(0)..<1000 {
      var dice = Dice(seed)
      let stage = WalletBench.Stage.allCases[dice.below(WalletBench.Stage.allCases.count - 1)]
      var bench = try WalletBench(at: stage, text: noise(3000, seed: seed)) { $0.window = 4 }
      var (withRadio, ends) = (stage == .sending ? 4 : 0, 0)
      for _ in 0..<60 {
        let event = walletEvent(bench, &dice)
        if case .written(.submitResponse, _) = event { withRadio = max(0, withRadio - 1) }
        let words = bench.handle(event)
        if ends > 0, !words.isEmpty { Issue.record("seed \(seed): \(words) after the end") }
        withRadio += words.filter { $0.contains("submitResponse") }.count
        ends += words.filter { $0 == "tell ended" }.count
        if withRadio > 4 { Issue.record("seed \(seed): \(withRadio) chunks with the radio") }
        bench.now = bench.now.advanced(by: .milliseconds(dice.below(20) == 0 ? dice.below(20_000) : dice.below(50)))
      }
      ends += bench.handle(.stop).filter { $0 == "tell ended" }.count
      ends += bench.pass(.seconds(2)).filter { $0 == "tell ended" }.count
      #expect(ends == 1, "seed \(seed), from \(stage)")
      #expect(bench.engine.deadline == nil)
    }
  }

  private func walletEvent(_ bench: WalletBench, _ dice: inout Dice) -> WalletEngine.Event {
    let characteristic = Characteristic.allCases[dice.below(9)]
    let failure: WalletEngine.WriteFailure? = dice.below(30) == 0 ? [.busy, .other][dice.below(2)] : nil
    switch dice.below(30) {
    case 0: return .start
    case 1: return .sighted(token: dice.next(), serviceData: bench.serviceData())
    case 2:
      return .sighted(
        token: 1, serviceData: bench.serviceData().mapValues { Self.mutated($0, &dice) })
    case 3: return .connected
    case 4: return .discovered(dice.below(3) == 0 ? [:] : bench.services)
    case 5: return .mtuChanged([67, 185, 517, .max, 66, 23, .min][dice.below(dice.below(5) == 0 ? 7 : 4)])
    case 6, 7, 8: return .subscribed(characteristic)
    case 9: return .written(.identify, failure)
    case 10: return .written(.responseSize, failure)
    case 11, 12, 13, 14, 15, 16: return .written(.submitResponse, failure)
    case 17: return .written(.transferReportRequest, failure)
    case 18, 19:
      return .notified(.transferReportResponse, TransferReport.missing([1, dice.below(40)], totalPages: 1).bytes)
    case 20: return .notified(.transferReportResponse, dice.below(4) == 0 ? [1, 0, 0] : [0, 0, 0])
    case 21: return .notified(characteristic, dice.below(4) == 0 ? Self.random(&dice) : [])
    case 22: return dice.below(8) == 0 ? .disconnected : .timer
    case 23:
      guard let sealing = bench.sealing else { return .timer }
      return .sealed(sealing.run())
    default: return .timer
    }
  }
}
