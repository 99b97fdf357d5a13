import Air
import Common
import Hall
import Loop
import TestSupport
import Testing

@testable import Verifier

/// Waiting times of honest clients, in virtual time: behind one another, and during attacks.
///
/// With `ALL=1` it prints the figures of docs/security.md and docs/performance.md, in minutes; otherwise there are
/// fewer clients and fewer radios.
@Suite("Waiting times of wallets under attack", .serialized)
struct AttackTests {
  init() { EventLoop.shared.runInBackground() }

  /// Lets clients arrive at a hall at intervals, until all are served.
  @LoopActor
  private static func waits(
    in hall: Hall, visitors count: Int, every interval: Duration, bringing bytes: Int, patience: Duration
  ) -> Waits {
    var visitors: [HonestVisitor] = []
    var here: [HonestVisitor] = []
    for number in 0..<count {
      let visitor = HonestVisitor(in: hall, bringing: sampleCredential(bytes, seed: UInt64(number)))
      visitors.append(visitor)
      here.append(visitor)
      hall.time.advance(by: interval)
      for visitor in here where visitor.wait != nil { visitor.leave() }
      here.removeAll { $0.wait != nil }
    }
    hall.time.run(until: { !here.contains { $0.wait == nil } }, limit: patience)
    return Waits(visitors.map(\.wait))
  }

  @Test(
    "Beside an attacker with one radio that occupies slots, 19 of 20 wallets are served within 20 s",
    arguments: Attacker.Strategy.allCases)
  func oneRadio(strategy: Attacker.Strategy) async {
    await LoopActor.run {
      let waits = Self.waits(beside: strategy, radios: 1, visitors: Extent.of(3, all: 20))
      if [.silent, .byteAMinute, .slow].contains(strategy) {
        #expect(waits.percentile(95) <= 20, "\(strategy.rawValue): \(waits)")
      }
    }
  }

  @Test(
    "Eight wallets that send nothing after Identify do not block a verifier that has eight links",
    arguments: [Attacker.Strategy.silent, .silentNewAddresses])
  func eightSilentSessions(strategy: Attacker.Strategy) async {
    await LoopActor.run {
      // The adapter's links; one stays free for new peers.
      let hall = Hall(seed: 1, conditions: HonestVisitor.pace, links: 8, configure: { $0.links = 7 })
      let waits = Self.waits(in: hall, beside: strategy, radios: 1, visitors: Extent.of(5, all: 20))
      if strategy == .silent { #expect(waits.percentile(95) <= 20, "\(strategy.rawValue): \(waits)") }
      #expect(hall.verifier.counters.visits > Attacker.linksOfRadio)
    }
  }

  @Test("After an attack by many radios wallets are served within 10 s", arguments: Attacker.Strategy.allCases)
  func manyRadios(strategy: Attacker.Strategy) async {
    await LoopActor.run {
      let hall = Hall(seed: 1, conditions: HonestVisitor.pace)
      _ = Self.waits(
        in: hall, beside: strategy, radios: Extent.of(2, all: 10), visitors: Extent.of(1, all: 4))
      hall.time.advance(by: .seconds(10))
      let next = Self.waits(in: hall, visitors: 1, every: .seconds(10), bringing: 10_000, patience: .seconds(10))
      #expect(next.percentile(100) < 10, "\(strategy.rawValue): \(next)")
    }
  }

  /// The waiting times of clients who arrive every 10 s with 10 KB, from the 20th second of an attack on.
  @LoopActor
  private static func waits(
    in hall: Hall = Hall(seed: 1, conditions: HonestVisitor.pace), beside strategy: Attacker.Strategy, radios: Int,
    visitors: Int
  ) -> Waits {
    let attacker = Attacker(in: hall, strategy, radios: radios)
    hall.time.advance(by: .seconds(20))
    let waits = waits(
      in: hall, visitors: visitors, every: .seconds(10), bringing: 10_000, patience: .seconds(30))
    attacker.stop()
    print("\(strategy.rawValue), \(radios == 1 ? "one radio" : "\(radios) radios"): \(waits)")
    return waits
  }

  @Test("Wallets with 100 KB that arrive every 10 s wait less with 4 session slots than with 1")
  func places() async {
    await LoopActor.run {
      // At 8 kB a second, a complete session takes somewhat longer than the interval between clients.
      let pace = AirConditions(latency: .milliseconds(62), maximumMTU: 517)
      let count = Extent.of(4, all: 200)
      let waits = [1, 4].map { places in
        Self.waits(
          in: Hall(seed: 1, conditions: pace, configure: { $0.visitors = places }), visitors: count,
          every: .seconds(10), bringing: 100_000, patience: .seconds(3600))
      }
      print("\(count) visitors, every 10 s, 100 KB: one place \(waits[0]); four places \(waits[1])")
      #expect(waits[1].percentile(95) < waits[0].percentile(95))
      #expect(waits[0].percentile(100).isFinite && waits[1].percentile(100).isFinite)
    }
  }
}
