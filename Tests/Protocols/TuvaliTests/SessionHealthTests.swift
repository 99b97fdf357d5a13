import Common
import Testing

@testable import Tuvali

/// The choice of the session to preempt, in random halls.
@Suite("Session health, and which session is preempted")
struct SessionHealthTests {
  private static let now = Instant.zero.advanced(by: .seconds(1000))

  private static func ago(_ milliseconds: Int) -> Instant { now.advanced(by: .milliseconds(-milliseconds)) }

  private static func standing(age: Int, silence: Int = 0, bytes: Int = 0, isDelivered: Bool = false) -> SessionHealth {
    SessionHealth(announcedAt: ago(age), progressAt: ago(silence), bytes: bytes, isDelivered: isDelivered)
  }

  static let faults: [(SessionHealth, SessionHealth.Fault?)] = [
    (standing(age: 4999, silence: 4999), nil),
    (standing(age: 5000, silence: 5000), .silent(.seconds(5))),
    (standing(age: 5000, silence: 10, bytes: 9999), .slow(1999)),
    (standing(age: 5000, silence: 10, bytes: 10_000), nil),
    (standing(age: 4999, silence: 10, bytes: 1), nil),
    (standing(age: 30_000, silence: 10, bytes: 100_000), nil),
    (standing(age: 30_001, silence: 10, bytes: 100_000), .old(.milliseconds(30_001))),
    (standing(age: 9000, silence: 9000, bytes: 1, isDelivered: true), nil),
    (standing(age: 31_000, silence: 9000, bytes: 1, isDelivered: true), .old(.seconds(31))),
  ]

  @Test("A session has a fault if its idle time, slowness or age reaches the limit", arguments: faults)
  func fault(standing: SessionHealth, fault: SessionHealth.Fault?) {
    #expect(standing.fault(at: Self.now) == fault)
  }

  @Test("An idle session is preempted before a slow one, and a slow one before an old one")
  func order() {
    let old = Self.standing(age: 60_000, silence: 1, bytes: 200_000)
    let slow = Self.standing(age: 6000, silence: 1, bytes: 6000)
    let slower = Self.standing(age: 6000, silence: 1, bytes: 5000)
    let silent = Self.standing(age: 5000, silence: 5000)
    let longer = Self.standing(age: 6000, silence: 6000)
    let all = [old, slow, slower, silent, longer]
    for (count, index) in [(5, 4), (4, 3), (3, 2), (2, 1), (1, 0)] {
      #expect(SessionHealth.worst(of: Array(all.prefix(count)), at: Self.now)?.index == index)
    }
    #expect(SessionHealth.worst(of: [nil, old, old, nil], at: Self.now)?.index == 1)
    #expect(SessionHealth.worst(of: [nil], at: Self.now) == nil)
  }

  @Test("The session with the worst fault is preempted, and none is if no session has a fault")
  func randomHalls() {
    var gone = 0
    for seed in UInt64(0)..<2000 {
      var dice = Dice(seed)
      let hall = (0..<1 + dice.below(6)).map { _ -> SessionHealth? in
        guard dice.below(8) > 0 else { return nil }
        let age = dice.below(40_000)
        return Self.standing(
          age: age, silence: dice.below(min(age, 8000) + 1), bytes: dice.below(100_000), isDelivered: dice.below(4) == 0
        )
      }
      let worst = SessionHealth.worst(of: hall, at: Self.now)
      let faults = hall.map { $0?.fault(at: Self.now) }
      #expect((worst == nil) == faults.allSatisfy { $0 == nil }, "seed \(seed)")
      guard let worst else { continue }
      gone += 1
      #expect(faults[worst.index] == worst.fault, "seed \(seed)")
      for fault in faults.compactMap(\.self) { #expect(!Self.isWorse(fault, than: worst.fault), "seed \(seed)") }
    }
    #expect(gone > 500)
  }

  /// An independent formulation of the rule.
  private static func isWorse(_ one: SessionHealth.Fault, than other: SessionHealth.Fault) -> Bool {
    switch (one, other) {
    case (.silent(let one), .silent(let other)), (.old(let one), .old(let other)): one > other
    case (.slow(let one), .slow(let other)): one < other
    case (.silent, _), (.slow, .old): true
    default: false
    }
  }
}
