import Common
import Testing

@testable import Tuvali

/// Each timer one nanosecond before its time and at it. Facts: tuvali.md section 7.
@Suite("Timeouts of the verifier engine")
struct VerifierTimeTests {
  @Test("A wallet that sends no Identify is disconnected after 10 s")
  func identify() {
    var bench = VerifierBench()
    _ = bench.open()
    bench.expectAt(.seconds(10), ["tell 1 silent", "cut 1"])
    #expect(bench.engine.counters.silentLinks == 1)
    #expect(bench.engine.deadline == nil)
  }

  @Test("Links without Identify are cut in the order of their timeouts")
  func severalSilent() {
    var bench = VerifierBench()
    for number: UInt64 in [3, 1, 2] { _ = bench.open(LinkID(number)) }
    _ = bench.pass(.seconds(4))
    _ = bench.open(LinkID(4))
    bench.expectAt(.seconds(6), ["1", "2", "3"].flatMap { ["tell \($0) silent", "cut \($0)"] })
    bench.expectAt(.seconds(4), ["tell 4 silent", "cut 4"])
  }

  @Test("A link without Identify is cut while another wallet is served")
  func silentBesideVisit() throws {
    var bench = try VerifierBench(at: .ready)
    _ = bench.open(LinkID(2))
    bench.expectAt(.seconds(10), ["tell 2 silent", "cut 2"])
    // The second link opened a nanosecond after the session had begun.
    bench.expectAt(.seconds(290) - .nanoseconds(1), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
  }

  @Test("A wallet with too small an MTU is cut after 0.5 s, whatever its MTU becomes")
  func hopelessLink() {
    var bench = VerifierBench()
    _ = bench.open(mtu: 66)
    #expect(bench.handle(.linkChanged(VerifierBench.wallet, mtu: 23)) == [])
    #expect(bench.handle(.linkChanged(VerifierBench.wallet, mtu: 517)) == [])
    bench.expectAt(.milliseconds(500), ["cut 1"])
    #expect(bench.engine.counters.silentLinks == 0)
    #expect(bench.engine.counters.failed == 1)
  }

  @Test("The verifier sends a report 40 ms after its request")
  func report() throws {
    var bench = try VerifierBench(at: .reporting)
    bench.expectAt(.milliseconds(40), ["unseal 1"])
  }

  @Test(
    "The report SUCCESS and the verdict are delayed, too, for Android wallets that subscribe late")
  func successAndVerdict() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    try bench.send(keys.seal(VerifierBench.text))
    #expect(bench.write([1], to: .transferReportRequest) == [])
    #expect(bench.pass(.milliseconds(39)) == [])
    #expect(bench.pass(.milliseconds(1)) == ["unseal 1"])
    #expect(bench.unsealAndKeep().contains("notify 1 transferReportResponse 010000"))
    let verdict = bench.handle(.decided(VerifierBench.wallet, accepted: true))
    #expect(verdict.first == "notify 1 verificationStatus 00")
  }

  @Test("A chunk that arrives does not delay a due report")
  func reportIsNotPutOff() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    try bench.send([UInt8](repeating: 1, count: 1000), without: [2])
    _ = bench.write([1], to: .transferReportRequest)
    #expect(bench.pass(.milliseconds(39)) == [])
    try bench.resend([UInt8](repeating: 1, count: 1000))
    bench.expectAt(.milliseconds(1), ["unseal 1"])
  }

  @Test("A wallet may be idle for 5 min after Identify, and for 1 min during the transfer")
  func idle() throws {
    for (stage, time) in [(.ready, 300), (.receiving, 60)] as [(VerifierBench.Stage, Int)] {
      var bench = try VerifierBench(at: stage)
      bench.expectAt(.seconds(time), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    }
    var bench = try VerifierBench(at: .reporting)
    bench.expectAt(.milliseconds(40), ["unseal 1"])
  }

  @Test("The idle timeout of 1 min restarts with the first size and with each new chunk")
  func signsOfLife() throws {
    var bench = try VerifierBench(at: .ready)
    _ = bench.pass(.seconds(299))
    _ = bench.announce(100_000)
    for sequence in 1...3 {
      #expect(bench.pass(.seconds(30)) == [])
      #expect(bench.write(AssemblerTests.chunk(sequence, [UInt8](repeating: 1, count: 178)), to: .submitResponse) == [])
    }
    bench.expectAt(.seconds(60), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
  }

  @Test("Malformed writes, duplicates and a restarted frame do not restart the idle timeout")
  func noSignsOfLife() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    _ = bench.announce(100_000)
    let chunk = AssemblerTests.chunk(1, [UInt8](repeating: 1, count: 178))
    _ = bench.write(chunk, to: .submitResponse)
    for _ in 0..<5 {
      #expect(bench.pass(.seconds(10)) == [])
      _ = bench.write([1, 2, 3], to: .identify)
      _ = bench.write(chunk, to: .submitResponse)
      _ = bench.write([1, 2, 3], to: .submitResponse)
      _ = bench.write([2], to: .transferReportRequest)
      _ = bench.announce(90_000)
      _ = bench.write(chunk, to: .submitResponse)
    }
    bench.expectAt(.seconds(10), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
  }

  @Test("A wallet that announces a new frame size cancels the due report and nothing else")
  func sizeWhileReportIsDue() throws {
    var bench = try VerifierBench(at: .receiving)
    _ = bench.write([1], to: .transferReportRequest)
    #expect(bench.announce(100) == ["tell 1 announced"])
    #expect(bench.pass(.milliseconds(40)) == [])
    bench.expectAt(.seconds(60) - .milliseconds(40), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
  }

  @Test(
    "After announcing the size a wallet has 1 min and 1 s per 1,000 bytes, at most 15 min",
    arguments: [(1000, 61), (100_000, 160), (2_000_000, 900)])
  func visitTime(size: Int, seconds: Int) throws {
    var bench = try VerifierBench(at: .ready)
    _ = bench.announce(size)
    let payload = [UInt8](repeating: 1, count: 178)
    for sequence in 1..<seconds {
      #expect(bench.pass(.seconds(1)) == [])
      // The last chunk never arrives.
      let chunk = AssemblerTests.chunk(min(sequence, (size - 1) / 178), payload)
      if sequence % 30 == 0 { #expect(bench.write(chunk, to: .submitResponse) == []) }
    }
    bench.expectAt(.seconds(1), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended"])
  }

  @Test("A report about a complete frame is sent without a request after 2 s without a write")
  func unasked() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    try bench.send(keys.seal(VerifierBench.text))
    #expect(bench.pass(.milliseconds(1500)) == [])
    // A repeated chunk counts as traffic, and restarts the 2 s.
    _ = bench.write(AssemblerTests.chunk(1, [1, 2, 3]), to: .submitResponse)
    bench.expectAt(.seconds(2), ["unseal 1"])
    #expect(bench.unsealAndKeep().contains("notify 1 transferReportResponse 010000"))
  }

  @Test("A complete frame is processed after 5 s even if the wallet continues to write")
  func neverQuiet() throws {
    var bench = VerifierBench()
    let keys = try bench.admit()
    try bench.send(keys.seal(VerifierBench.text))
    var (words, seconds): ([String], Int) = ([], 0)
    while words.isEmpty, seconds < 70 {
      words = bench.pass(.seconds(1))
      seconds += 1
      for characteristic in [.submitResponse, .identify] as [Characteristic] {
        _ = bench.write([9], to: characteristic)
      }
    }
    #expect(words == ["unseal 1"] && (5...6).contains(seconds), "\(seconds) s")
  }

  @Test("A report requested at the timeout is sent, and the wallet is disconnected")
  func reportAtTheEnd() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    try bench.send([UInt8](repeating: 1, count: 1000), without: [2])
    #expect(bench.pass(.milliseconds(59_990)) == [])
    _ = bench.write([1], to: .transferReportRequest)
    #expect(
      bench.pass(.seconds(2)) == [
        "notify 1 transferReportResponse 0000010002", "tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01",
      ])
    #expect((bench.engine.deadline ?? .zero) > bench.now)
  }

  @Test("Decrypting and storing a credential have a timeout of 1 min")
  func slowHouse() throws {
    for stage in [VerifierBench.Stage.unsealing, .keeping] {
      var bench = try VerifierBench(at: stage)
      bench.expectAt(.seconds(60), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    }
  }

  @Test("Without a verdict the wallet is disconnected after 30 s, whatever it writes")
  func decision() throws {
    var bench = try VerifierBench(at: .deciding)
    _ = bench.pass(.seconds(29))
    _ = bench.write([1], to: .transferReportRequest)
    bench.expectAt(.seconds(1), ["notify 1 disconnect 01"])
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended"])
    #expect(bench.engine.counters.failed == 0)
  }

  @Test("A wallet is asked to disconnect 2 s after the verdict, and its link is cut 0.5 s later")
  func leaving() throws {
    var bench = try VerifierBench(at: .leaving)
    bench.expectAt(.seconds(2), ["notify 1 disconnect 01"])
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended"])
    #expect(bench.engine.linkDeadline == nil)
  }

  @Test("The link of a wallet that was asked to disconnect is cut in time, whatever the wallet writes")
  func closeGuard() throws {
    var bench = try VerifierBench(at: .closing)
    for characteristic in Characteristic.allCases { #expect(bench.write([1], to: characteristic) == []) }
    _ = bench.handle(.linkChanged(VerifierBench.wallet, mtu: 23))
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended"])
  }

  @Test("After every event the verifier engine's deadline is in the future", arguments: VerifierBench.Stage.allCases)
  func deadlineIsAhead(stage: VerifierBench.Stage) throws {
    let bench = try VerifierBench(at: stage)
    let deadline = try #require(bench.engine.deadline)
    #expect(deadline > bench.now)
  }
}

extension VerifierBench {
  /// Expects no action a nanosecond before this time has passed, and `words` when it has.
  mutating func expectAt(_ duration: Duration, _ words: [String], sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(engine.linkDeadline == now.advanced(by: duration), sourceLocation: sourceLocation)
    #expect(pass(duration - .nanoseconds(1)) == [], sourceLocation: sourceLocation)
    #expect(pass(.nanoseconds(1)) == words, sourceLocation: sourceLocation)
  }
}
