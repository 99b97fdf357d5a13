import Air
import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// Faults of the link and of the adapter, at every step of a visit.
@Suite("The kiosk outlives every fault of the link", .serialized)
struct LinkFaultTests {
  init() { EventLoop.shared.runInBackground() }

  /// A seed draws keys and names; the events are the same.
  private static let seeds: [UInt64] = Extent.of([1, 2], all: Seeds.usual)

  /// Where the kiosk keeps what it receives.
  enum Keeping: CaseIterable { case memory, disk }

  /// Runs a visit once for each event it has, and strikes after so many events.
  ///
  /// With a disk nobody judges a credential before the ordinary visit at the end: what was received is on it, no more and no
  /// less.
  @LoopActor
  private func atEveryEvent(
    _ fault: String, seed: UInt64, _ keeping: Keeping = .memory, strike: (Trial, Transfer) -> Bool,
    then: (Trial, Transfer) throws -> Void
  ) throws {
    var step = 0
    var trials = 0
    var isOver = false
    while !isOver {
      step += 1
      let cabinet = Cabinet()
      let hall = keeping == .disk ? cabinet.hall(seed: seed) : Hall(seed: seed, conditions: Trial.quick)
      try Trial.run("\(fault) after event \(step), kept in \(keeping)", hall) { trial in
        let (transfer, _) = try trial.send()
        for _ in 0..<step where transfer.isLive { trial.hall.time.runNext() }
        isOver = !transfer.isLive
        let underWay = trial.hall.incoming.flatMap { Self.isWhole($0) ? nil : $0 }
        guard !isOver, strike(trial, transfer) else { return }
        trials += 1
        try then(trial, transfer)
        if keeping == .disk { Self.expectUnjudged(trial, in: cabinet) }
        hall.judge = { _ in true }
        try trial.expectOrdinaryVisit()
        trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
        // Whatever the fault was, what had not come before it does not come after it.
        guard let underWay else { return }
        trial.check(
          underWay.state == .failed && underWay.error?.code == "TVV_UNK_001",
          "the visit is \(underWay.state) with \(underWay.error?.code ?? "no error")")
      }
    }
    #expect(trials > 15, "only \(trials) places")
  }

  /// Exactly what nobody has judged is on the disk, and comes back from it.
  @LoopActor
  private static func expectUnjudged(_ trial: Trial, in cabinet: Cabinet) {
    trial.hall.time.advance(by: .milliseconds(1))
    let unjudged = trial.hall.verifier.transfers.transfers.count { $0.state == .received }
    trial.check(unjudged == trial.hall.received.count, "\(trial.hall.received.count) were received, \(unjudged) wait")
    trial.check(cabinet.files.count == unjudged, "\(unjudged) wait, on the disk: \(cabinet.files)")
    trial.check(cabinet.files.allSatisfy(Cabinet.isUnjudged), "on the disk: \(cabinet.files)")
  }

  /// Whether the credential is here, every chunk of it.
  @LoopActor
  private static func isWhole(_ transfer: Transfer) -> Bool {
    let figures = transfer.figures
    return transfer.state.isEnd || transfer.state == .received
      || figures.chunksExpected > 0 && figures.chunksMissing == 0
  }

  @Test(
    "Cut after any event, the link leaves nothing behind, and the next wallet is served", arguments: seeds,
    Keeping.allCases)
  func cut(seed: UInt64, keeping: Keeping) async throws {
    try await LoopActor.run {
      try atEveryEvent("link cut", seed: seed, keeping) { trial, _ in
        trial.hall.air.links.map { trial.hall.air.cut($0) }.contains(true)
      } then: { trial, transfer in
        trial.expectWaiting(within: .seconds(1))
        trial.expectEnd(of: transfer, within: .seconds(1))
        trial.expectComplaints()
      }
    }
  }

  @Test("The wallet's person may stop it after any event", arguments: seeds, Keeping.allCases)
  func walletStops(seed: UInt64, keeping: Keeping) async throws {
    try await LoopActor.run {
      try atEveryEvent("wallet stopped", seed: seed, keeping) { trial, transfer in
        trial.hall.wallets[0].disconnect(transfer)
      } then: { trial, transfer in
        trial.expectWaiting(within: .seconds(1))
        trial.expectEnd(of: transfer, within: .seconds(3))
        trial.expectComplaints()
      }
    }
  }

  @Test("The local program may end a transfer after any event", arguments: seeds)
  func kioskDisconnects(seed: UInt64) async throws {
    try await LoopActor.run {
      try atEveryEvent("wallet dismissed", seed: seed) { trial, _ in
        trial.hall.incoming.map { trial.hall.verifier.disconnect($0) } ?? false
      } then: { trial, transfer in
        trial.expectWaiting(within: .seconds(1))
        trial.expectEnd(of: transfer, within: .seconds(1))
        trial.expectComplaints()
      }
    }
  }

  @Test("The kiosk may be stopped and started after any event", arguments: seeds, Keeping.allCases)
  func kioskStops(seed: UInt64, keeping: Keeping) async throws {
    try await LoopActor.run {
      try atEveryEvent("kiosk stopped", seed: seed, keeping) { trial, _ in
        trial.hall.verifier.stop()
        trial.check(trial.hall.verifier.held == .init(), "stopped, it holds \(trial.hall.verifier.held)")
        return true
      } then: { trial, transfer in
        trial.hall.time.advance(by: .seconds(1))
        _ = trial.hall.verifier.start()
        trial.expectWaiting(within: .seconds(1))
        // It may have been connecting, and tries with a key that is no more.
        trial.expectEnd(of: transfer, within: .seconds(35))
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
      }
    }
  }

  @Test(
    "The kiosk's adapter may go after any event, for a moment or for long; once back, the next wallet is served",
    arguments: [Duration.zero, .seconds(2), .seconds(120)], Keeping.allCases)
  func kioskAdapter(outage: Duration, keeping: Keeping) async throws {
    try await LoopActor.run {
      for seed in Self.seeds { try kioskAdapter(outage, seed, keeping) }
    }
  }

  @LoopActor
  private func kioskAdapter(_ outage: Duration, _ seed: UInt64, _ keeping: Keeping) throws {
    try atEveryEvent("kiosk's adapter lost for \(outage)", seed: seed, keeping) { trial, _ in
      trial.hall.kioskRadio.power = false
      trial.check(trial.hall.kioskRadio.status.state == .waiting, "the radio is said to work")
      return true
    } then: { trial, transfer in
      if outage > .zero {
        trial.hall.time.advance(by: outage)
        trial.check(trial.hall.verifier.held == .init(), "without a radio it holds \(trial.hall.verifier.held)")
      }
      trial.hall.kioskRadio.power = true
      trial.check(trial.hall.kioskRadio.status.state == .ready, "the radio is said not to work")
      // A wallet that was still looking finds it now, or has given up.
      trial.expectEnd(of: transfer, within: .seconds(31))
      trial.expectWaiting(within: .seconds(1))
      trial.expectComplaints()
    }
  }

  @Test("The wallet's adapter may go after any event; the kiosk waits again at once", arguments: seeds)
  func walletAdapter(seed: UInt64) async throws {
    try await LoopActor.run {
      try atEveryEvent("wallet's adapter lost", seed: seed) { trial, _ in
        trial.hall.walletRadios[0].power = false
        return true
      } then: { trial, transfer in
        trial.expectWaiting(within: .seconds(1))
        trial.hall.time.advance(by: .seconds(2))
        trial.hall.walletRadios[0].power = true
        trial.expectEnd(of: transfer, within: .seconds(31))
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
      }
    }
  }

  @Test(
    "A wallet that sets out while its adapter is gone says so in time, and nothing of it stays", arguments: seeds)
  func walletWithoutAdapter(seed: UInt64) async throws {
    try await LoopActor.run {
      try Trial.run("no adapter", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let (transfer, _) = try trial.send()
        trial.hall.walletRadios[0].power = false
        trial.expectEnd(of: transfer, within: .seconds(31))
        trial.check(transfer.error?.code == "TVW_UNK_001", "it ended with \(transfer.error?.code ?? "no error")")
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }
}
