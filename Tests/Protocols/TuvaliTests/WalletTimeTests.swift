import Common
import Testing

@testable import Tuvali

/// Each timer one nanosecond before its time and at it. Facts: tuvali.md section 7.
@Suite("Timeouts of the wallet engine")
struct WalletTimeTests {
  @Test("The wallet's scan for the verifier ends after 30 s")
  func scanTime() throws {
    var bench = try WalletBench(at: .scanning)
    bench.expectAt(.seconds(30), ["stop scanning", "tell TVW_UNK_001 timeout", "tell ended"])
    #expect(bench.engine.deadline == nil)
  }

  @Test("Connection and identification together have a timeout of 10 s")
  func connectTime() throws {
    for stage in [WalletBench.Stage.connecting, .discovering, .exchangingMTU, .subscribing, .identifying] {
      var bench = try WalletBench(at: stage)
      bench.expectAt(.seconds(10), ["tell TVW_UNK_001 timeout", "disconnect"])
    }
    var bench = try WalletBench(at: .connecting)
    _ = bench.pass(.seconds(3))
    _ = bench.handle(.connected)
    _ = bench.handle(.discovered(bench.services))
    _ = bench.pass(.seconds(3))
    _ = bench.handle(.mtuChanged(185))
    bench.expectAt(.seconds(4), ["tell TVW_UNK_001 timeout", "disconnect"])
  }

  @Test("A repeated discovery does not extend the timeout of 10 s")
  func discoveryTime() throws {
    var bench = try WalletBench(at: .discovering)
    _ = bench.pass(.seconds(10) - .milliseconds(1))
    #expect(bench.handle(.discovered([:])) == [])
    bench.expectAt(.milliseconds(1), ["tell TVW_UNK_001 timeout", "disconnect"])
  }

  @Test("A transfer continues while the verifier sends nothing for up to 60 s")
  func idleTime() throws {
    for stage in [WalletBench.Stage.sealing, .announcing, .sending, .awaitingStatus] {
      var bench = try WalletBench(at: stage)
      bench.expectAt(.seconds(60), ["tell TVW_UNK_001 timeout", "disconnect"])
    }
    var bench = try WalletBench(at: .sending)
    _ = bench.pass(.seconds(59))
    _ = bench.chunksLeave(1)
    bench.expectAt(.seconds(60), ["tell TVW_UNK_001 timeout", "disconnect"])
  }

  @Test("Irrelevant notifications of a verifier do not extend the timeout of 60 s")
  func idleTalk() throws {
    for stage in [WalletBench.Stage.sending, .asking, .awaitingStatus] {
      var bench = try WalletBench(at: stage)
      let deadline = bench.engine.deadline
      bench.now = bench.now.advanced(by: .seconds(3))
      for characteristic in Characteristic.allCases where characteristic != .transferReportResponse {
        #expect(bench.handle(.notified(characteristic, [])) == [])
      }
      #expect(bench.engine.deadline == deadline)
    }
  }

  @Test("A missing report is requested again every 5 s, and after 60 s the transfer ends with TVW_REP_001")
  func reportTime() throws {
    for answersRequests in [true, false] {
      var bench = try WalletBench(at: .asking)
      for _ in 1...11 {
        bench.expectAt(.seconds(5), ["request transferReportRequest 01"])
        if answersRequests { #expect(bench.handle(.written(.transferReportRequest, nil)) == []) }
      }
      var late = bench
      #expect(late.report(.success) == ["tell sent"])
      #expect(bench.pass(.seconds(5)) == ["tell TVW_REP_001 timeout", "disconnect"])
    }
  }

  @Test("Each round of chunks has a timeout of 60 s for its report")
  func reportTimeOfRound() throws {
    var bench = try WalletBench(at: .asking)
    for _ in 1...11 {
      bench.expectAt(.seconds(5), ["request transferReportRequest 01"])
      _ = bench.handle(.written(.transferReportRequest, nil))
    }
    _ = bench.report(.missing([1], totalPages: 1))
    #expect(bench.chunksLeave(1) == ["request transferReportRequest 01"])
    for _ in 1...11 {
      bench.expectAt(.seconds(5), ["request transferReportRequest 01"])
      _ = bench.handle(.written(.transferReportRequest, nil))
    }
  }

  @Test("A second answer to a repeated report request is ignored by the wallet")
  func lateReports() throws {
    var bench = try WalletBench(at: .asking)
    bench.expectAt(.seconds(5), ["request transferReportRequest 01"])
    #expect(bench.report(.missing([1, 2], totalPages: 1)).count == 2)
    #expect(bench.report(.missing([1, 2], totalPages: 1)) == [])
    #expect(bench.chunksLeave(2) == ["request transferReportRequest 01"])
    #expect(bench.report(.success) == ["tell sent"])
    #expect(bench.report(.success) == [])
  }

  @Test("A link that the wallet disconnects and that does not end within 2 s is treated as ended")
  func leaveTime() throws {
    var bench = try WalletBench(at: .leaving)
    bench.expectAt(.seconds(2), ["tell ended"])
    #expect(bench.handle(.disconnected) == [])
  }

  @Test(
    "Every stage of a wallet's transfer except the first and the last has a deadline in the future",
    arguments: WalletBench.Stage.allCases)
  func deadlineIsAhead(stage: WalletBench.Stage) throws {
    let bench = try WalletBench(at: stage)
    guard stage != .idle, stage != .ended else {
      #expect(bench.engine.deadline == nil)
      return
    }
    #expect(try #require(bench.engine.deadline) > bench.now)
  }
}

extension WalletBench {
  /// Expects no action a nanosecond before this time has passed, and `words` when it has.
  mutating func expectAt(_ duration: Duration, _ words: [String], sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(engine.deadline == now.advanced(by: duration), sourceLocation: sourceLocation)
    #expect(pass(duration - .nanoseconds(1)) == [], sourceLocation: sourceLocation)
    #expect(pass(.nanoseconds(1)) == words, sourceLocation: sourceLocation)
  }
}
