import Air
import Common
import Hall
import Loop
import TestSupport
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// Faults of the link and of the adapter, at every step of a transfer.
@Suite("A verifier during link faults", .serialized)
struct LinkFaultTests {
  init() { EventLoop.shared.runInBackground() }

  /// Seeds of keys and names; the events do not depend on them.
  private static let seeds: [UInt64] = Extent.of([1, 2], all: Seeds.usual)

  /// Storage of the received credentials.
  enum Keeping: CaseIterable { case memory, disk }

  /// Runs a transfer once per event, and injects the fault after that number of events.
  ///
  /// With a disk no credential is judged before the ordinary transfer at the end: exactly the received credentials
  /// are on the disk.
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
        // Whatever the fault, packets that did not arrive before it do not arrive after it.
        guard let underWay else { return }
        trial.check(
          underWay.state == .failed && underWay.error?.code == "TVV_UNK_001",
          "the visit is \(underWay.state) with \(underWay.error?.code ?? "no error")")
      }
    }
    #expect(trials > 15, "only \(trials) places")
  }

  /// Expects that exactly the unjudged credentials are on the disk, and are restored from it.
  @LoopActor
  private static func expectUnjudged(_ trial: Trial, in cabinet: Cabinet) {
    trial.hall.time.advance(by: .milliseconds(1))
    let unjudged = trial.hall.verifier.transfers.transfers.count { $0.state == .received }
    trial.check(unjudged == trial.hall.received.count, "\(trial.hall.received.count) were received, \(unjudged) wait")
    trial.check(cabinet.files.count == unjudged, "\(unjudged) wait, on the disk: \(cabinet.files)")
    trial.check(cabinet.files.allSatisfy(Cabinet.isUnjudged), "on the disk: \(cabinet.files)")
  }

  /// Whether every chunk of the credential has arrived.
  @LoopActor
  private static func isWhole(_ transfer: Transfer) -> Bool {
    let figures = transfer.figures
    return transfer.state.isEnd || transfer.state == .received
      || figures.chunksExpected > 0 && figures.chunksMissing == 0
  }

  @Test(
    "A link cut after any event of a transfer leaves no state, and the next wallet is served", arguments: seeds,
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

  @Test(
    "The verifier serves the next wallet if a wallet disconnects after any event of its transfer", arguments: seeds,
    Keeping.allCases)
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

  @Test(
    "The verifier serves the next wallet if a program calls Disconnect after any event of a transfer", arguments: seeds)
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

  @Test(
    "The verifier serves the next wallet after it was stopped and started at any event of a transfer", arguments: seeds,
    Keeping.allCases)
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
        // The wallet may have been connecting, and tries an expired key.
        trial.expectEnd(of: transfer, within: .seconds(35))
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
      }
    }
  }

  @Test(
    "The verifier serves the next wallet after its adapter was lost at any event, briefly or for long",
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
      trial.hall.time.advance(by: .zero)
      trial.check(trial.hall.kioskRadio.status.state == .ready, "the radio is said not to work")
      // A wallet that was still scanning finds the kiosk now, or has given up.
      trial.expectEnd(of: transfer, within: .seconds(31))
      trial.expectWaiting(within: .seconds(1))
      trial.expectComplaints()
    }
  }

  @Test(
    "The verifier is ready again 1 s after a wallet's adapter was lost at any event of a transfer", arguments: seeds)
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
    "The transfer of a wallet whose adapter disappears at its start fails with TVW_UNK_001 within 31 s",
    arguments: seeds)
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
