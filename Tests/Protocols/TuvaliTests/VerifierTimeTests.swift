import Common
import Testing

@testable import Tuvali

/// Each timer one nanosecond before its time and at it. Facts: tuvali.md section 7.
@Suite("The verifier's time")
struct VerifierTimeTests {
  @Test("A wallet has ten seconds to say who it is")
  func identify() {
    var bench = VerifierBench()
    _ = bench.open()
    bench.expectAt(.seconds(10), ["tell 1 silent", "cut 1"])
    #expect(bench.engine.counters.silentLinks == 1)
    #expect(bench.engine.deadline == nil)
  }

  @Test("Links that stay silent are cut in the order of their numbers, each at its time")
  func severalSilent() {
    var bench = VerifierBench()
    for number: UInt64 in [3, 1, 2] { _ = bench.open(LinkID(number)) }
    _ = bench.pass(.seconds(4))
    _ = bench.open(LinkID(4))
    bench.expectAt(.seconds(6), ["1", "2", "3"].flatMap { ["tell \($0) silent", "cut \($0)"] })
    bench.expectAt(.seconds(4), ["tell 4 silent", "cut 4"])
  }

  @Test("A silent link is cut while another is served")
  func silentBesideVisit() throws {
    var bench = try VerifierBench(at: .ready)
    _ = bench.open(LinkID(2))
    bench.expectAt(.seconds(10), ["tell 2 silent", "cut 2"])
    bench.expectAt(.seconds(50), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
  }

  @Test("A link whose MTU is too small has half a second to leave by itself, whatever its MTU is then")
  func hopelessLink() {
    var bench = VerifierBench()
    _ = bench.open(mtu: 66)
    #expect(bench.handle(.linkChanged(VerifierBench.wallet, mtu: 23)) == [])
    #expect(bench.handle(.linkChanged(VerifierBench.wallet, mtu: 517)) == [])
    bench.expectAt(.milliseconds(500), ["cut 1"])
    #expect(bench.engine.counters.silentLinks == 0)
    #expect(bench.engine.counters.failed == 1)
  }

  @Test("A report goes out 40 ms after it was asked for")
  func report() throws {
    var bench = try VerifierBench(at: .reporting)
    bench.expectAt(.milliseconds(40), ["unseal 1"])
  }

  @Test(
    "SUCCESS and the verdict go out after the delay too, however quickly the house is: an Android wallet listens late")
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

  @Test("A chunk that comes while a report is due does not put it off")
  func reportIsNotPutOff() throws {
    var bench = VerifierBench()
    _ = try bench.admit()
    try bench.send([UInt8](repeating: 1, count: 1000), without: [2])
    _ = bench.write([1], to: .transferReportRequest)
    #expect(bench.pass(.milliseconds(39)) == [])
    try bench.resend([UInt8](repeating: 1, count: 1000))
    bench.expectAt(.milliseconds(1), ["unseal 1"])
  }

  @Test("A wallet may be silent for a minute while it transfers")
  func idle() throws {
    for stage in [VerifierBench.Stage.ready, .receiving] {
      var bench = try VerifierBench(at: stage)
      bench.expectAt(.seconds(60), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    }
    var bench = try VerifierBench(at: .reporting)
    bench.expectAt(.milliseconds(40), ["unseal 1"])
  }

  @Test("The minute begins again with every sign of the wallet")
  func signsOfLife() throws {
    var bench = try VerifierBench(at: .ready)
    _ = bench.pass(.seconds(59))
    let (identify, _) = try bench.identification()
    _ = bench.write(identify.bytes, to: .identify)
    _ = bench.pass(.seconds(59))
    _ = bench.announce(1000)
    _ = bench.pass(.seconds(59))
    try bench.resend([UInt8](repeating: 1, count: 1000), without: [2])
    _ = bench.pass(.seconds(59))
    #expect(bench.report() == ["notify 1 transferReportResponse 0000010002"])
    bench.expectAt(
      .seconds(60) - bench.engine.configuration.reportDelay, ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
  }

  @Test("A new size calls off the report that was due, and nothing else")
  func sizeWhileReportIsDue() throws {
    var bench = try VerifierBench(at: .reporting)
    #expect(bench.announce(100) == ["tell 1 announced"])
    #expect(bench.pass(.milliseconds(40)) == [])
    bench.expectAt(.seconds(60) - .milliseconds(40), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
  }

  @Test("However lively, a wallet has a quarter of an hour to send its credential")
  func visitTime() throws {
    var bench = try VerifierBench(at: .ready)
    for _ in 1..<30 {
      #expect(bench.pass(.seconds(30)) == [])
      #expect(bench.announce(100) == ["tell 1 announced"])
    }
    bench.expectAt(.seconds(30), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended", "advertise OVPMOSIP"])
  }

  @Test("Decrypting and keeping may not take longer than a minute either")
  func slowHouse() throws {
    for stage in [VerifierBench.Stage.unsealing, .keeping] {
      var bench = try VerifierBench(at: stage)
      bench.expectAt(.seconds(60), ["tell 1 TVV_UNK_001 timeout", "notify 1 disconnect 01"])
    }
  }

  @Test("Without a verdict the wallet is asked to leave after 30 seconds, whatever it writes")
  func decision() throws {
    var bench = try VerifierBench(at: .deciding)
    _ = bench.pass(.seconds(29))
    _ = bench.write([1], to: .transferReportRequest)
    bench.expectAt(.seconds(1), ["notify 1 disconnect 01"])
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended", "advertise OVPMOSIP"])
    #expect(bench.engine.counters.failed == 0)
  }

  @Test("Two seconds after the verdict the wallet is asked to leave, half a second later it is cut")
  func leaving() throws {
    var bench = try VerifierBench(at: .leaving)
    bench.expectAt(.seconds(2), ["notify 1 disconnect 01"])
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended", "advertise OVPMOSIP"])
    #expect(bench.engine.deadline == nil)
  }

  @Test("Whatever a wallet writes that is to leave, it is cut in time")
  func closeGuard() throws {
    var bench = try VerifierBench(at: .closing)
    for characteristic in Characteristic.allCases { #expect(bench.write([1], to: characteristic) == []) }
    _ = bench.handle(.linkChanged(VerifierBench.wallet, mtu: 23))
    bench.expectAt(.milliseconds(500), ["cut 1", "tell 1 ended", "advertise OVPMOSIP"])
  }

  @Test("After every event the deadline is ahead", arguments: VerifierBench.Stage.allCases)
  func deadlineIsAhead(stage: VerifierBench.Stage) throws {
    let bench = try VerifierBench(at: stage)
    let deadline = try #require(bench.engine.deadline)
    #expect(deadline > bench.now)
  }
}

extension VerifierBench {
  /// Nothing happens a nanosecond before so much time has passed, and `words` when it has.
  mutating func expectAt(_ duration: Duration, _ words: [String], sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(engine.deadline == now.advanced(by: duration), sourceLocation: sourceLocation)
    #expect(pass(duration - .nanoseconds(1)) == [], sourceLocation: sourceLocation)
    #expect(pass(.nanoseconds(1)) == words, sourceLocation: sourceLocation)
  }
}
