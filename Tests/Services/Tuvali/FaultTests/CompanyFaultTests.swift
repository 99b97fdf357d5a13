import Common
import Glibc
import Hall
import Loop
import Store
import TestSupport
import Testing
import Transfers
import Tuvali
import Wallet

@testable import Air
@testable import Verifier

/// Faults of one transfer during another: a long credential on a slow link, from before the fault until after it.
///
/// By default faults are injected at some events; with `ALL=1` at each event, and with more seeds.
@Suite("Faults of one of two simultaneous transfers", .serialized)
struct CompanyFaultTests {
  init() { EventLoop.shared.runInBackground() }

  private static let seeds: [UInt64] = Extent.of([1], all: Seeds.few)
  /// Events between two injected faults.
  private static let stride = Extent.of(5, all: 1)

  /// Two transfers: the one with the fault, and its company.
  @LoopActor
  private struct Visits {
    let trial: Trial
    let company: Transfer
    let struck: Transfer

    var hall: Hall { trial.hall }
    /// The kiosk's side of the faulty transfer; nil before its wallet has identified itself.
    var incoming: Transfer? { hall.verifier.transfers.transfers.dropFirst().first }
    var radio: AirRadio { hall.walletRadios[1] }

    init(_ trial: Trial) throws {
      self.trial = trial
      let hall = trial.hall
      company = try trial.send(6000).transfer
      hall.air.setConditions(
        AirConditions(latency: .milliseconds(40), maximumMTU: 185), between: hall.walletRadios[0].address,
        and: hall.kioskRadio.address)
      let isServed = hall.time.run(until: { hall.verifier.visitors == 1 }, limit: .seconds(5))
      trial.check(isServed, "the company is not served")
      struck = try trial.send().transfer
    }

    /// Runs this number of simulation events, or fewer if the faulty transfer ends before.
    func run(events: Int) {
      for _ in 0..<events where struck.isLive { hall.time.runNext() }
    }

    /// Expects that the credential of the undisturbed transfer arrives intact, and that its wallet gets the verdict.
    func expectCompany() {
      let ended = hall.time.run(until: { !company.isLive }, limit: .seconds(60))
      let error = company.error?.sentence ?? ""
      trial.check(ended && company.state == .accepted, "the other visit is \(company.state): \(error)")
      trial.check(hall.received.contains(trial.credentials[0]), "the other credential is not received")
    }

    /// Expects that both transfers end with correct results, and that the next wallet is served.
    func expectEnd(within limit: Duration) throws {
      trial.expectEnd(of: struck, within: limit)
      trial.expectEnd(of: company, within: .seconds(60))
      trial.expectHonesty()
      trial.expectWaiting(within: .seconds(2))
      trial.expectComplaints()
      try trial.expectOrdinaryVisit()
    }
  }

  // MARK: After any event

  enum Fault: String, CaseIterable, Sendable {
    case cut, walletStops, walletAdapter, dismissed, kioskStops, kioskAdapter

    /// Whether the fault affects both transfers.
    var isOfKiosk: Bool { self == .kioskStops || self == .kioskAdapter }
  }

  @Test(
    "A fault of one transfer after any event does not affect a simultaneous transfer",
    arguments: Fault.allCases, seeds)
  func anyEvent(fault: Fault, seed: UInt64) async throws {
    try await LoopActor.run {
      var events = Int(seed) % Self.stride
      var together = 0
      var isOver = false
      while !isOver {
        events += Self.stride
        try Trial.run("\(fault.rawValue) after event \(events)", Hall(seed: seed, conditions: Trial.quick)) { trial in
          let visits = try Visits(trial)
          visits.run(events: events)
          isOver = !visits.struck.isLive
          guard !isOver, strike(fault, visits) else { return }
          if visits.company.isLive, visits.incoming != nil { together += 1 }
          if fault.isOfKiosk { restart(fault, visits) } else { visits.expectCompany() }
          try visits.expectEnd(within: .seconds(36))
        }
      }
      #expect(together > Extent.of(5, all: 30), "both were there at \(together) places only")
    }
  }

  /// - Returns: whether there was a transfer to inject the fault into.
  @LoopActor
  private func strike(_ fault: Fault, _ visits: Visits) -> Bool {
    let hall = visits.hall
    switch fault {
    case .cut: return visits.radio.ends.map { hall.air.cut($0.id) }.contains(true)
    case .walletStops: return hall.wallets[1].disconnect(visits.struck)
    case .walletAdapter: visits.radio.power = false
    case .dismissed: return visits.incoming.map { hall.verifier.disconnect($0) } ?? false
    case .kioskStops: hall.verifier.stop()
    case .kioskAdapter: hall.kioskRadio.power = false
    }
    return true
  }

  /// Restarts the kiosk after a second, without its transfers.
  @LoopActor
  private func restart(_ fault: Fault, _ visits: Visits) {
    let hall = visits.hall
    hall.time.advance(by: .seconds(1))
    visits.trial.check(hall.verifier.held == .init(), "it holds \(hall.verifier.held)")
    if fault == .kioskStops { _ = hall.verifier.start() } else { hall.kioskRadio.power = true }
    hall.time.advance(by: .zero)
  }

  // MARK: Packets

  @Test(
    "A faulty packet of one transfer does not affect a simultaneous transfer",
    arguments: PacketFaultTests.Fault.allCases,
    seeds)
  func anyPacket(fault: PacketFaultTests.Fault, seed: UInt64) async throws {
    try await LoopActor.run {
      var dice = Dice(seed)
      var number = 0
      var hasStruck = true
      while hasStruck {
        try Trial.run("packet \(number) \(fault.rawValue)", Hall(seed: seed, conditions: Trial.quick)) { trial in
          let visits = try Visits(trial)
          let hall = visits.hall
          let striker = Striker(at: number, where: { _ in true }) { fault.verdict($0, &dice) }
          var conditions = Trial.quick
          conditions.filter = striker.judge
          hall.air.setConditions(conditions, between: visits.radio.address, and: hall.kioskRadio.address)
          hall.time.run(until: { trial.isOver }, limit: .seconds(63))
          hall.air.setConditions(nil, between: visits.radio.address, and: hall.kioskRadio.address)
          hasStruck = striker.hasStruck
          visits.expectCompany()
          try visits.expectEnd(within: .seconds(1))
        }
        number += Extent.of(3, all: 1)
      }
      #expect(number > 8)
    }
  }

  // MARK: The disk

  @Test(
    "A disk call that fails once or always affects neither of two simultaneous transfers", arguments: [ENOSPC, EIO],
    seeds)
  func anyDiskCall(errno: Int32, seed: UInt64) async throws {
    try await LoopActor.run {
      for isLasting in [false, true] {
        var number = 0
        var hasStruck = true
        while hasStruck {
          number += Extent.of(3, all: 1)
          let cabinet = Cabinet()
          let hall = cabinet.hall(seed: seed, conditions: Trial.quick)
          hall.restore()
          hall.judge = { _ in true }
          let first = cabinet.disk.calls + number
          let struck = Locked(false)
          cabinet.disk.fail { call in
            guard call.number == first || isLasting && call.number > first else { return nil }
            struck.withLock { $0 = true }
            return errno
          }
          try Trial.run("disk call \(number) \(isLasting ? "and all after it" : "alone")", hall) { trial in
            let visits = try Visits(trial)
            visits.expectCompany()
            trial.expectEnd(of: visits.struck, within: .seconds(10))
            trial.check(visits.struck.state == .accepted, "it is \(visits.struck.state)")
            trial.check(hall.received.contains(trial.credentials[1]), "its credential is not received")
            hall.time.advance(by: .seconds(300))
            hasStruck = struck.withLock { $0 }
            cabinet.disk.fail(nil)
            hall.time.advance(by: .seconds(61))
            try trial.expectOrdinaryVisit()
            trial.check(hall.verifier.vault.trouble == nil, "the disk is well, and nobody has noticed")
            trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
          }
        }
        #expect(number > 12, "only \(number) calls")
      }
    }
  }

  @Test(
    "After a power loss at any event of two transfers each received credential exists once",
    arguments: seeds)
  func powerLoss(seed: UInt64) async throws {
    try await LoopActor.run {
      var events = 0
      var most = 0
      var isOver = false
      while !isOver {
        events += Self.stride
        let cabinet = Cabinet()
        var received: [[UInt8]] = []
        var sent: [[UInt8]] = []
        try Trial.run("power lost after event \(events)", cabinet.hall(seed: seed)) { trial in
          trial.hall.restore()
          let visits = try Visits(trial)
          for _ in 0..<events where visits.company.isLive || visits.struck.isLive { trial.hall.time.runNext() }
          isOver = !visits.company.isLive && !visits.struck.isLive
          received = trial.hall.verifier.transfers.transfers.filter { $0.state == .received }.compactMap(\.credential)
          sent = trial.credentials
        }
        cabinet.crash()
        most = max(most, received.count)
        try Trial.run("power lost after event \(events), and back", cabinet.hall(seed: seed)) { trial in
          trial.hall.restore()
          let restored = trial.hall.verifier.transfers.transfers.compactMap(\.credential)
          let (isComplete, isHonest) = (received.allSatisfy(restored.contains), restored.allSatisfy(sent.contains))
          trial.check(isComplete, "\(received.count) were received, \(restored.count) are there")
          trial.check(isHonest && Set(restored).count == restored.count, "\(restored.count) are there")
          trial.hall.judge = { _ in true }
          try trial.expectOrdinaryVisit()
          trial.check(cabinet.files.isEmpty, "on the disk: \(cabinet.files)")
        }
      }
      #expect(most == 2 && events > 30, "\(most) were received at once, after \(events) events")
    }
  }
}
