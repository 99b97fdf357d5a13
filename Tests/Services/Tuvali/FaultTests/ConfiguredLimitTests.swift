import Air
import Common
import Hall
import Journal
import Loop
import Radio
import TestSupport
import Testing
import Transfers
import Tuvali
import Wallet

@testable import Verifier

/// The configured maximum counts, each set to a small value: the limit is admitted, one more is refused and counted.
@Suite("Configured limits of the verifier", .serialized)
struct ConfiguredLimitTests {
  init() { EventLoop.shared.runInBackground() }

  /// A hall whose kiosk has these limits.
  @LoopActor
  private static func hall(_ seed: UInt64, _ set: (inout VerifierService.Settings) -> Void) -> Hall {
    let hall = Hall(seed: seed, conditions: Trial.quick)
    var settings = hall.verifier.settings
    set(&settings)
    hall.verifier.apply(settings)
    return hall
  }

  @Test(
    "The verifier accepts links up to the total limit, and a further link is cut and counted", arguments: [1, 3, 12],
    Seeds.few)
  func links(limit: Int, seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Self.hall(seed) {
        $0.links = limit
        $0.engine.waitingLinks = 64
      }
      try Trial.run("\(limit) links in all", hall) { trial in
        let phones = (0..<limit).map { _ in Phone(in: hall) }
        for phone in phones { phone.connect() }
        hall.time.advance(by: .seconds(1))
        trial.check(phones.allSatisfy(\.isConnected), "not all are let in")
        trial.check(hall.verifier.refusedLinks == 0, "one of them is counted")
        let other = Phone(in: hall)
        other.connect()
        hall.time.advance(by: .seconds(1))
        trial.check(!other.isConnected && hall.verifier.refusedLinks == 1, "\(hall.verifier.refusedLinks) refused")
        trial.check(hall.verifier.held.links == limit, "\(hall.verifier.held)")
        for phone in phones { phone.leave() }
        trial.expectWaiting(within: .seconds(1))
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "The verifier accepts links of one address up to the limit, and a further link is cut and counted",
    arguments: Seeds.few)
  func linksPerPeer(seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Self.hall(seed) { $0.linksPerPeer = 2 }
      try Trial.run("links per peer", hall) { trial in
        let address = BluetoothAddress(0x0000_0A0B_0C0D)
        for number in 1...2 {
          hall.verifier.linkOpened(LinkID(9000 + UInt64(number)), address: address, since: hall.time.now)
        }
        trial.check(hall.verifier.held.links == 2 && hall.verifier.refusedLinks == 0, "\(hall.verifier.held)")
        hall.verifier.linkOpened(LinkID(9003), address: address, since: hall.time.now)
        trial.check(hall.verifier.held.links == 2 && hall.verifier.refusedLinks == 1, "\(hall.verifier.held)")
        hall.verifier.linkClosed(LinkID(9003))
        let other = Phone(in: hall)
        other.connect()
        hall.time.advance(by: .seconds(1))
        trial.check(other.isConnected && hall.verifier.held.links == 3, "another peer is not let in")
        other.leave()
        for number in 1...2 { hall.verifier.linkClosed(LinkID(9000 + UInt64(number))) }
        trial.expectWaiting(within: .seconds(1))
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "The verifier accepts links without Identify up to the limit, and a further link is cut and counted",
    arguments: [1, 5],
    Seeds.few)
  func waitingLinks(limit: Int, seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Self.hall(seed) { $0.engine.waitingLinks = limit }
      try Trial.run("\(limit) waiting links", hall) { trial in
        let phones = (0..<limit).map { _ in Phone(in: hall) }
        for phone in phones { phone.connect() }
        hall.time.advance(by: .seconds(1))
        trial.check(phones.allSatisfy(\.isConnected) && hall.verifier.counters.refused == 0, "not all are let in")
        let other = Phone(in: hall)
        other.connect()
        hall.time.advance(by: .seconds(1))
        trial.check(!other.isConnected && hall.verifier.counters.refused == 1, "\(hall.verifier.counters)")
        for phone in phones { phone.leave() }
        trial.expectWaiting(within: .seconds(1))
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "The verifier logs lines up to the limit for each peer and minute, and counts further ones", arguments: [1, 4],
    Seeds.few)
  func linesPerPeer(limit: Int, seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("\(limit) lines", Self.hall(seed) { $0.linesPerPeer = limit }) { trial in
        let phone = Phone(in: trial.hall)
        for attempt in 1...(limit + 1) {
          phone.connect(mtu: 23)
          trial.hall.time.advance(by: .seconds(1))
          let lines = trial.log.complaints(of: "Verifier").count
          trial.check(lines == min(attempt, limit), "\(lines) lines after \(attempt) failures")
        }
        trial.check(trial.hall.verifier.journal.total == 1, "\(trial.hall.verifier.journal.total) counted")
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "Up to `LinesPerPeer` transfers of a peer are logged each minute, each of them with all its lines",
    arguments: [3, 6],
    Seeds.few)
  func linesOfGoodVisits(limit: Int, seed: UInt64) async throws {
    try await LoopActor.run {
      let hall = Self.hall(seed) { $0.linesPerPeer = limit }
      try Trial.run("\(limit) lines of good visits", hall) { trial in
        let phone = Phone(in: hall)
        for number in 1...20 {
          try phone.deliver(sampleCredential(200, seed: UInt64(number)))
          hall.time.advance(by: .milliseconds(600))
          phone.leave()
          hall.time.advance(by: .milliseconds(100))
        }
        trial.check(hall.received.count == 20, "\(hall.received.count) were received")
        let stories = trial.log.stories(of: "Verifier")
        trial.check(stories.count == limit, "\(stories.count) transfers are written: \(stories)")
        for (number, ids) in stories {
          trial.check(
            ids == [.transferStarted, .transferReceived, .transferDecided], "transfer \(number) is written as \(ids)")
        }
        trial.check(hall.verifier.journal.total == 20 - UInt64(limit), "nothing is counted")
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test(
    "A transfer whose end is in the journal has its start in the journal, too")
  func wholeStories() async throws {
    try await LoopActor.run {
      let hall = Hall(decision: .client)
      try Trial.run("stories of one phone", hall) { trial in
        let phone = Phone(in: hall)
        for number in 1...20 {
          if number % 2 == 0 {
            _ = try phone.identify()
          } else {
            try phone.deliver(sampleCredential(200, seed: UInt64(number)))
            hall.time.advance(by: .milliseconds(600))
            if let transfer = hall.incoming { _ = hall.verifier.decide(transfer, accepted: true) }
          }
          hall.time.advance(by: .milliseconds(100))
          phone.leave()
          hall.time.advance(by: .milliseconds(100))
        }
        let stories = trial.log.stories(of: "Verifier")
        let ends: Set<MessageID> = [.transferDecided, .transferFailed]
        trial.check(stories.values.contains { $0.contains(.transferFailed) }, "no failure is written")
        trial.check(stories.values.count { $0.contains(.transferDecided) } == 10, "not each verdict is written")
        for (number, ids) in stories where ids.contains(where: ends.contains) {
          trial.check(ids.first == .transferStarted, "transfer \(number) is written as \(ids)")
        }
      }
    }
  }

  @Test("A wallet may have transfers up to the limit at once, and a further one is refused and counted")
  func walletTransfers() async throws {
    try await LoopActor.run {
      let air = Hall(conditions: Trial.quick)
      let wallet = air.addWallet()
      wallet.apply(
        {
          var settings = wallet.settings
          (settings.concurrentTransfers, settings.keptTransfers) = (2, 3)
          return settings
        }())
      // No verifier shows this code.
      let uri = "OPENID4VP://connect?name=nobody&key=" + String(repeating: "07", count: 32)
      for round in 1...3 {
        let begun = try (0..<2).map { _ in try wallet.send(uri, [0x78]) }
        let error = caught(TuvaliError.self) { try wallet.send(uri, [0x78]) }
        #expect(error?.reason == .limitExceeded && wallet.counters.refused == round && wallet.active == 2)
        #expect(air.time.run(until: { !begun.contains(where: \.isLive) }, limit: .seconds(60)))
        #expect(wallet.counters.begun == 2 * round && wallet.counters.failed == 2 * round)
        #expect(wallet.transfers.transfers.count <= 3)
      }
    }
  }
}
