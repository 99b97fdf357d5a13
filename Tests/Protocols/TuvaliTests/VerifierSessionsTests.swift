import Common
import Crypto
import Testing

@testable import Tuvali

/// Which wallets get a session slot, and when the key is replaced. Facts: tuvali.md sections 2 and 7.
@Suite("The verifier engine with several wallets")
struct VerifierSessionsTests {
  static let second = LinkID(2)

  @Test(
    "A wallet that announces a size while the only slot is in use is refused and does not disturb the other",
    arguments: VerifierBench.Stage.allCases)
  func bargingIn(stage: VerifierBench.Stage) throws {
    var bench = try VerifierBench(at: stage)
    let (deadline, progress) = (bench.engine.linkDeadline, bench.engine.progress)
    #expect(bench.open(Self.second) == [])
    let (identify, _) = try bench.identification()
    #expect(bench.announce(256, on: Self.second) == [])
    #expect(bench.write([1], to: .transferReportRequest, on: Self.second) == [])
    #expect(
      bench.write(identify.bytes, to: .identify, on: Self.second) == ["advertise OVPMOSIP", "tell 2 secured v05"])
    guard ![.ready, .leaving, .closing].contains(stage) else {
      // A wallet that has announced no size, or was asked to disconnect, takes no slot.
      #expect(bench.announce(256, on: Self.second) == ["tell 2 announced"])
      return #expect(bench.engine.visitors == [VerifierBench.wallet, Self.second])
    }
    #expect(bench.announce(256, on: Self.second) == ["refuse busy", "tell 2 TVV_UNK_001 busy"])
    #expect(bench.handle(.linkClosed(Self.second)) == ["tell 2 ended"])
    #expect(bench.engine.counters.refused == 1)
    #expect(bench.engine.visitor == VerifierBench.wallet)
    #expect(bench.engine.linkDeadline == deadline)
    #expect(bench.engine.progress == progress)
    if stage == .receiving {
      // The frame of one chunk is still missing it.
      #expect(bench.report() == ["notify 1 transferReportResponse 0000010001"])
    }
  }

  @Test("A wallet refused at its size is asked to disconnect after the answer, and then its link is cut")
  func refusedAtSize() throws {
    var bench = try VerifierBench(at: .receiving)
    _ = try bench.admit(Self.second)
    #expect(bench.announce(256, on: Self.second) == ["refuse busy", "tell 2 TVV_UNK_001 busy"])
    for characteristic in [.responseSize, .submitResponse, .transferReportRequest] as [Characteristic] {
      #expect(bench.write([0, 1, 0, 0], to: characteristic, on: Self.second).filter { !$0.hasPrefix("refuse") } == [])
    }
    bench.expectAt(.milliseconds(100), ["notify 2 disconnect 01"])
    bench.expectAt(.milliseconds(500), ["cut 2", "tell 2 ended"])
    #expect(bench.engine.visitors == [VerifierBench.wallet])
  }

  @Test("The link of a refused wallet is cut once its answer was sent, and its writes are refused")
  func turnedDown() throws {
    var bench = VerifierBench()
    let (identify, _) = try bench.identification()
    _ = bench.open(Self.second)
    _ = bench.handle(.room(.init(credentials: 0, bytes: 0)))
    #expect(bench.write(identify.bytes, to: .identify, on: Self.second) == ["refuse full", "tell 2 refused full"])
    #expect(bench.engine.turnedDownLinks == 1)
    #expect(bench.engine.waitingLinks == 0)
    #expect(bench.pass(.milliseconds(60)) == [])
    for characteristic in Characteristic.allCases {
      #expect(bench.write(identify.bytes, to: characteristic, on: Self.second) == ["refuse busy"])
    }
    #expect(bench.handle(.linkChanged(Self.second, mtu: 23)) == [])
    #expect(bench.open(Self.second) == [])
    bench.expectAt(.milliseconds(40), ["cut 2"])
    #expect(bench.engine.turnedDownLinks == 0)
    #expect(bench.engine.counters.refused == 1)
    #expect(bench.handle(.linkClosed(Self.second)) == [])
  }

  @Test("A refused wallet does not count as a waiting link, and its link is cut when the verifier stops")
  func turnedDownTakesNoPlace() throws {
    var bench = VerifierBench { $0.waitingLinks = 1 }
    let (identify, _) = try bench.identification()
    _ = bench.handle(.room(.init(credentials: 0, bytes: 0)))
    for number in UInt64(2)...4 {
      #expect(bench.open(LinkID(number)) == [])
      let words = bench.write(identify.bytes, to: .identify, on: LinkID(number))
      #expect(words == ["refuse full", "tell \(number) refused full"])
    }
    #expect(bench.engine.turnedDownLinks == 3)
    #expect(bench.handle(.stop) == ["cut 2", "cut 3", "cut 4"])
    #expect(bench.engine.turnedDownLinks == 0 && bench.engine.deadline == nil)
  }

  @Test("The verifier ignores writes before Identify")
  func writesBeforeIdentify() throws {
    var bench = VerifierBench()
    _ = bench.open()
    #expect(bench.announce(100) == [])
    #expect(bench.write([1], to: .transferReportRequest) == [])
    #expect(bench.write([0, 1, 0, 0, 0], to: .submitResponse) == [])
    #expect(bench.engine.counters.ignoredWrites == 3)
    _ = try bench.admit()
    #expect(bench.engine.visitor == VerifierBench.wallet)
  }

  @Test("The verifier refuses writes on an unknown link")
  func unknownLink() throws {
    var bench = VerifierBench()
    let (identify, _) = try bench.identification()
    #expect(bench.write(identify.bytes, to: .identify, on: LinkID(9)) == ["refuse busy"])
    #expect(bench.announce(100) == ["refuse busy"])
    #expect(bench.engine.visitor == nil)
    bench = VerifierBench(isStarted: false)
    #expect(bench.open(LinkID(9)) == [])
    #expect(bench.write(identify.bytes, to: .identify, on: LinkID(9)) == ["refuse busy"])
  }

  @Test("Waiting links are accepted up to the limit, one more is refused, and an ended one frees its slot")
  func waitingLimit() throws {
    var bench = VerifierBench { $0.waitingLinks = 3 }
    for number in 1...3 { #expect(bench.open(LinkID(UInt64(number))) == []) }
    #expect(bench.handle(.linkOpened(LinkID(4), at: bench.now)) == ["tell 4 refused busy", "cut 4"])
    #expect(bench.engine.counters.refused == 1)
    #expect(bench.handle(.linkClosed(LinkID(2))) == [])
    #expect(bench.handle(.linkOpened(LinkID(5), at: bench.now)) == [])
    #expect(bench.handle(.linkOpened(LinkID(6), at: bench.now)) == ["tell 6 refused busy", "cut 6"])
    // Link 1 gets a session slot, and is no longer a waiting link.
    _ = try bench.admit(LinkID(1))
    #expect(bench.handle(.linkOpened(LinkID(7), at: bench.now)) == [])
  }

  @Test("Sessions reduce the permitted number of waiting links, down to one")
  func linksOfVisitors() throws {
    var bench = VerifierBench {
      $0.links = 3
      $0.visitors = 4
    }
    for number in 1...3 { #expect(bench.open(LinkID(UInt64(number))) == []) }
    #expect(bench.handle(.linkOpened(LinkID(4), at: bench.now)) == ["tell 4 refused busy", "cut 4"])
    // The first wallet gets a session slot, and two wait.
    let (identify, _) = try bench.identification()
    _ = bench.write(identify.bytes, to: .identify, on: LinkID(1))
    #expect(bench.engine.visitors.count == 1)
    #expect(bench.open(LinkID(5)) == ["tell 5 refused busy", "cut 5"])
    #expect(bench.handle(.linkClosed(LinkID(2))) == [])
    #expect(bench.open(LinkID(6)) == [])
    for number in [3, 6] { #expect(bench.handle(.linkClosed(LinkID(UInt64(number)))) == []) }
    bench.engine.configuration.links = 1
    #expect(bench.open(LinkID(7)) == [])
    #expect(bench.handle(.linkOpened(LinkID(8), at: bench.now)) == ["tell 8 refused busy", "cut 8"])
  }

  @Test("A link that is reported twice to the verifier keeps its start time and slot")
  func openedTwice() throws {
    var bench = VerifierBench { $0.waitingLinks = 1 }
    _ = bench.open()
    let deadline = bench.engine.deadline
    bench.now = bench.now.advanced(by: .seconds(1))
    #expect(bench.open() == [])
    #expect(bench.engine.deadline == deadline)
    bench = try VerifierBench(at: .ready)
    let visit = bench.engine.deadline
    #expect(bench.open() == [])
    #expect(bench.engine.visitor == VerifierBench.wallet)
    #expect(bench.engine.deadline == visit)
  }

  @Test("After each session there is an invitation with a new key, however the session ended")
  func freshKeys() throws {
    var bench = VerifierBench()
    for number in UInt64(1)...20 {
      let link = LinkID(number)
      _ = try bench.admit(link)
      #expect(bench.engine.visitor == link)
      switch number % 3 {
      case 0: _ = bench.handle(.linkClosed(link))
      case 1:
        _ = bench.handle(.dismissed(link))
        #expect(bench.pass(.milliseconds(500)) == ["cut \(number)", "tell \(number) ended"])
      default:
        _ = bench.handle(.stop)
        _ = bench.handle(.start)
      }
      // A code is replaced four times in a row at most, and then once in five seconds.
      _ = bench.pass(.seconds(5))
      #expect(bench.engine.visitor == nil)
      #expect(bench.engine.progress == nil)
    }
    // The first code, one for each Identify, and one for each of seven new starts.
    #expect(bench.invitations.count == 28)
    #expect(Set(bench.invitations.map(\.key)).count == 28)
    #expect(bench.engine.invitation == bench.invitations.last)
  }

  @Test(
    "A lost link ends the transfer session, with an error if the credential is incomplete",
    arguments: VerifierBench.Stage.allCases)
  func linkLost(stage: VerifierBench.Stage) throws {
    var bench = try VerifierBench(at: stage)
    let failed = bench.engine.counters.failed
    let words = bench.handle(.linkClosed(VerifierBench.wallet))
    let lost = stage.isUnderWay ? ["tell 1 TVV_UNK_001 peerLost"] : []
    #expect(words == lost + ["tell 1 ended"])
    #expect(bench.engine.counters.failed == failed + lost.count)
    #expect(bench.handle(.linkClosed(VerifierBench.wallet)) == [])
  }

  @Test(
    "A wallet that a program dismisses gets Disconnect at every stage, and its link is then cut",
    arguments: VerifierBench.Stage.allCases)
  func dismissed(stage: VerifierBench.Stage) throws {
    var bench = try VerifierBench(at: stage)
    let failed = bench.engine.counters.failed
    let words = bench.handle(.dismissed(VerifierBench.wallet))
    let stopped = stage.isUnderWay ? ["tell 1 TVV_UNK_001 stopped"] : []
    #expect(words == stopped + (stage == .closing ? [] : ["notify 1 disconnect 01"]))
    #expect(bench.engine.counters.failed == failed + stopped.count)
    #expect(bench.pass(.milliseconds(500)) == ["cut 1", "tell 1 ended"])
  }

  @Test("Dismissing one of three wallets does not affect the others")
  func dismissedAmongOthers() throws {
    var bench = VerifierBench { $0.visitors = 3 }
    for number in UInt64(1)...3 { _ = try bench.admit(LinkID(number)) }
    #expect(bench.handle(.dismissed(Self.second)) == ["tell 2 TVV_UNK_001 stopped", "notify 2 disconnect 01"])
    #expect(bench.pass(.milliseconds(500)) == ["cut 2", "tell 2 ended"])
    #expect(bench.engine.visitors == [LinkID(1), LinkID(3)])
  }

  @Test("Stopping the verifier ends the session and cuts every link", arguments: VerifierBench.Stage.allCases)
  func stop(stage: VerifierBench.Stage) throws {
    var bench = try VerifierBench(at: stage)
    _ = bench.open(LinkID(3))
    _ = bench.open(LinkID(2))
    let failed = bench.engine.counters.failed
    let stopped = stage.isUnderWay ? ["tell 1 TVV_UNK_001 stopped"] : []
    #expect(
      bench.handle(.stop)
        == ["stop advertising", "notify 1 disconnect 01", "cut 1"] + stopped + ["tell 1 ended", "cut 2", "cut 3"])
    #expect(bench.engine.counters.failed == failed + stopped.count)
    #expect(bench.engine.deadline == nil)
    #expect(bench.engine.invitation == nil)
    #expect(bench.handle(.stop) == [])
    #expect(bench.handle(.linkClosed(VerifierBench.wallet)) == [])
    #expect(bench.handle(.start) == ["advertise OVPMOSIP"])
  }

  @Test("Results that arrive after the end of a transfer session have no effect")
  func lateResults() throws {
    for stage in [VerifierBench.Stage.unsealing, .keeping] {
      var bench = try VerifierBench(at: stage)
      _ = bench.handle(.dismissed(VerifierBench.wallet))
      #expect(bench.unsealAndKeep() == [])
      _ = bench.handle(.linkClosed(VerifierBench.wallet))
      #expect(bench.unsealAndKeep() == [])
      #expect(bench.handle(.decided(VerifierBench.wallet, accepted: true)) == [])
      #expect(bench.handle(.dismissed(VerifierBench.wallet)) == [])
    }
  }

  @Test("A verifier name that does not fit the advertisement is not advertised, and advertising stops")
  func badName() throws {
    var bench = VerifierBench(isStarted: false) { $0.name = "FIFTEENBYTENAME" }
    #expect(bench.handle(.start) == [])
    #expect(bench.engine.invitation == nil)
    bench = VerifierBench()
    _ = bench.open()
    let (identify, _) = try bench.identification()
    bench.engine.configuration.name = ""
    #expect(bench.write(identify.bytes, to: .identify) == ["stop advertising", "tell 1 secured v05"])
    #expect(bench.engine.invitation == nil)
    bench.engine.configuration.name = "OVPMOSIP"
    #expect(bench.handle(.start) == ["advertise OVPMOSIP"])
  }
}
