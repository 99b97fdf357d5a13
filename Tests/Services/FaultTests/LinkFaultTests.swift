import Air
import Common
import Hall
import Loop
import Testing
import Transfers
import Tuvali

@testable import Verifier

/// Faults of the link and of the adapter, at every step of a visit.
@Suite("The kiosk outlives every fault of the link", .serialized)
struct LinkFaultTests {
  init() { EventLoop.shared.runInBackground() }

  /// Runs a visit once for each event it has, and strikes after so many events.
  @LoopActor
  private func atEveryEvent(
    _ fault: String, seed: UInt64, strike: (Trial, Transfer) -> Bool, then: (Trial, Transfer) throws -> Void
  ) throws {
    var step = 0
    var trials = 0
    var isOver = false
    while !isOver {
      step += 1
      try Trial.run("\(fault) after event \(step)", Hall(seed: seed, conditions: Trial.quick)) { trial in
        let (transfer, _) = try trial.send()
        for _ in 0..<step where transfer.isLive { trial.hall.time.runNext() }
        isOver = !transfer.isLive
        guard !isOver, strike(trial, transfer) else { return }
        trials += 1
        try then(trial, transfer)
      }
    }
    #expect(trials > 15, "only \(trials) places")
  }

  @Test("Cut after any event, the link leaves nothing behind, and the next wallet is served", arguments: 1...5)
  func cut(seed: UInt64) async throws {
    try await LoopActor.run {
      try atEveryEvent("link cut", seed: seed) { trial, _ in
        trial.hall.air.links.map { trial.hall.air.cut($0) }.contains(true)
      } then: { trial, transfer in
        trial.expectWaiting(within: .seconds(1))
        trial.expectEnd(of: transfer, within: .seconds(1))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("The wallet's person may stop it after any event", arguments: 1...5)
  func walletStops(seed: UInt64) async throws {
    try await LoopActor.run {
      try atEveryEvent("wallet stopped", seed: seed) { trial, transfer in
        trial.hall.wallets[0].disconnect(transfer)
      } then: { trial, transfer in
        trial.expectWaiting(within: .seconds(1))
        trial.expectEnd(of: transfer, within: .seconds(3))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("The local program may end a transfer after any event", arguments: 1...5)
  func kioskDisconnects(seed: UInt64) async throws {
    try await LoopActor.run {
      try atEveryEvent("wallet dismissed", seed: seed) { trial, _ in
        trial.hall.incoming.map { trial.hall.verifier.disconnect($0) } ?? false
      } then: { trial, transfer in
        trial.expectWaiting(within: .seconds(1))
        trial.expectEnd(of: transfer, within: .seconds(1))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("The kiosk may be stopped and started after any event", arguments: 1...5)
  func kioskStops(seed: UInt64) async throws {
    try await LoopActor.run {
      try atEveryEvent("kiosk stopped", seed: seed) { trial, _ in
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
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("The kiosk's adapter may go after any event; once back, the next wallet is served", arguments: 1...5)
  func kioskAdapter(seed: UInt64) async throws {
    try await LoopActor.run {
      try atEveryEvent("kiosk's adapter lost", seed: seed) { trial, _ in
        trial.hall.kioskRadio.power = false
        return true
      } then: { trial, transfer in
        trial.hall.time.advance(by: .seconds(2))
        trial.check(trial.hall.verifier.held == .init(), "without a radio it holds \(trial.hall.verifier.held)")
        trial.hall.kioskRadio.power = true
        // A wallet that was still looking finds it now.
        trial.expectEnd(of: transfer, within: .seconds(31))
        trial.expectWaiting(within: .seconds(1))
        trial.expectComplaints()
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("The wallet's adapter may go after any event; the kiosk waits again at once", arguments: 1...5)
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
        try trial.expectOrdinaryVisit()
      }
    }
  }

  @Test("A wallet that sets out while its adapter is gone says so in time, and nothing of it stays")
  func walletWithoutAdapter() async throws {
    try await LoopActor.run {
      try Trial.run("no adapter", Hall(conditions: Trial.quick)) { trial in
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
