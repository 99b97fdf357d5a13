import Common
import Radio
import TestSupport
import Testing

@testable import Sharing

@Suite("The plan of advertisements")
struct AdvertisingPlanTests {
  private static func id(_ number: Int) -> AdvertisingPlan.ID { AdvertisingPlan.ID(number: number) }

  private static func at(_ milliseconds: Int) -> Instant { Instant.zero.advanced(by: .milliseconds(milliseconds)) }

  private static func terms(_ priority: AdvertisingPriority, least: Int, wait: Int) -> AdvertisingTerms {
    AdvertisingTerms(priority, leastTime: .milliseconds(least), longestWait: .milliseconds(wait))
  }

  @Test("An advertisement takes a free slot at once, and leaves it free for the next")
  func freeSlots() {
    var plan = AdvertisingPlan(slots: 2)
    #expect(plan.handle(.add(Self.id(1), .init(), isReady: true), at: .zero) == [.show(Self.id(1), slot: 0)])
    #expect(plan.handle(.add(Self.id(2), .init(), isReady: true), at: .zero) == [.show(Self.id(2), slot: 1)])
    #expect(plan.deadline(after: .zero) == nil)
    #expect(plan.handle(.add(Self.id(3), .init(), isReady: true), at: .zero) == [])
    #expect(
      plan.handle(.remove(Self.id(1)), at: Self.at(10)) == [.clear(slot: 0), .show(Self.id(3), slot: 0)])
  }

  @Test("An advertisement waits until its own application is served, and goes when it no longer is")
  func readiness() {
    var plan = AdvertisingPlan(slots: 1)
    #expect(plan.handle(.add(Self.id(1), .init(), isReady: false), at: .zero) == [])
    #expect(plan.handle(.add(Self.id(2), .init(), isReady: true), at: .zero) == [.show(Self.id(2), slot: 0)])
    #expect(plan.handle(.remove(Self.id(2)), at: .zero) == [.clear(slot: 0)])
    #expect(plan.handle(.ready(Self.id(1), true), at: .zero) == [.show(Self.id(1), slot: 0)])
    #expect(plan.handle(.ready(Self.id(1), true), at: .zero) == [])
    #expect(plan.handle(.ready(Self.id(1), false), at: .zero) == [.clear(slot: 0)])
    #expect(plan.onAir == [:])
  }

  @Test("One of higher priority displaces another only after its least time, and gives the slot back when it goes")
  func displacing() {
    var plan = AdvertisingPlan(slots: 1)
    _ = plan.handle(.add(Self.id(1), Self.terms(.notify, least: 1000, wait: 60_000), isReady: true), at: .zero)
    #expect(
      plan.handle(.add(Self.id(2), Self.terms(.person, least: 1000, wait: 60_000), isReady: true), at: .zero) == [])
    #expect(plan.deadline(after: .zero) == Self.at(1000))
    #expect(plan.handle(.timer, at: Self.at(999)) == [])
    #expect(plan.handle(.timer, at: Self.at(1000)) == [.show(Self.id(2), slot: 0)])
    // The lower one is not shown before its longest wait.
    #expect(plan.handle(.timer, at: Self.at(10_000)) == [])
    #expect(
      plan.handle(.remove(Self.id(2)), at: Self.at(11_000)) == [.clear(slot: 0), .show(Self.id(1), slot: 0)])
  }

  @Test("Two of the same priority take turns, each for its least time")
  func turns() {
    var plan = AdvertisingPlan(slots: 1)
    _ = plan.handle(.add(Self.id(1), Self.terms(.notify, least: 300, wait: 60_000), isReady: true), at: .zero)
    _ = plan.handle(.add(Self.id(2), Self.terms(.notify, least: 700, wait: 60_000), isReady: true), at: .zero)
    var shown: [String] = []
    var now = Instant.zero
    for _ in 0..<4 {
      guard let next = plan.deadline(after: now) else { break }
      now = next
      for case .show(let id, _) in plan.handle(.timer, at: now) {
        shown.append("\(id.number) at \(now.nanoseconds / 1_000_000)")
      }
    }
    #expect(shown == ["2 at 300", "1 at 1000", "2 at 1300", "1 at 2000"])
  }

  @Test("One whose terms ask for no time at all is shown for the shortest time nevertheless")
  func shortestTime() {
    var plan = AdvertisingPlan(slots: 1)
    _ = plan.handle(.add(Self.id(1), Self.terms(.notify, least: 0, wait: 60_000), isReady: true), at: .zero)
    #expect(plan.handle(.add(Self.id(2), Self.terms(.notify, least: 0, wait: 60_000), isReady: true), at: .zero) == [])
    let shortest = Instant.zero.advanced(by: AdvertisingPlan.shortestTime)
    #expect(AdvertisingPlan.shortestTime > .zero && plan.deadline(after: .zero) == shortest)
    #expect(plan.handle(.timer, at: Self.at(1)) == [])
    #expect(plan.handle(.timer, at: shortest) == [.show(Self.id(2), slot: 0)])
  }

  @Test("The lowest is shown after its longest wait, for its least time, and then gives way again")
  func longestWait() {
    var plan = AdvertisingPlan(slots: 1)
    _ = plan.handle(.add(Self.id(1), Self.terms(.person, least: 500, wait: 1000), isReady: true), at: .zero)
    _ = plan.handle(.add(Self.id(2), Self.terms(.notify, least: 200, wait: 5000), isReady: true), at: .zero)
    #expect(plan.handle(.timer, at: Self.at(4999)) == [])
    #expect(plan.handle(.timer, at: Self.at(5000)) == [.show(Self.id(2), slot: 0)])
    #expect(plan.handle(.timer, at: Self.at(5199)) == [])
    #expect(plan.handle(.timer, at: Self.at(5200)) == [.show(Self.id(1), slot: 0)])
  }

  @Test("With fewer slots what is beyond them leaves the air, and comes back with more")
  func fewerSlots() {
    var plan = AdvertisingPlan(slots: 2)
    _ = plan.handle(.add(Self.id(1), .init(), isReady: true), at: .zero)
    _ = plan.handle(.add(Self.id(2), .init(), isReady: true), at: .zero)
    #expect(plan.handle(.slots(1), at: Self.at(1)) == [.clear(slot: 1)])
    #expect(plan.handle(.slots(0), at: Self.at(2)) == [])
    #expect(plan.handle(.slots(2), at: Self.at(3)) == [.show(Self.id(2), slot: 1)])
  }

  /// Advertisements in the random run, and the longest least time of one.
  private static let most = 8
  private static let longestLeast = Duration.milliseconds(2100)

  /// What happens to one advertisement in the random run.
  private struct Life {
    let terms: AdvertisingTerms
    var isReady: Bool
    var waitsSince: Instant?
    var shownSince: Instant?
    var slot: Int?

    mutating func goOnAir(in slot: Int, at now: Instant) {
      self.slot = slot
      shownSince = now
      waitsSince = nil
    }

    mutating func leaveAir(at now: Instant) {
      slot = nil
      shownSince = nil
      waitsSince = now
    }
  }

  @Test(
    "25,000 random requests from a seed: no more than the slots, no cut within the least time, no wait beyond the rule",
    arguments: [1, 2, 3, 4] as [UInt64])
  func random(seed: UInt64) {
    var dice = Dice(seed)
    let slots = 1 + dice.below(3)
    var plan = AdvertisingPlan(slots: slots)
    var lives: [AdvertisingPlan.ID: Life] = [:]
    var now = Instant.zero
    var (shows, displacements, last) = (0, 0, 0)

    func check(_ actions: [AdvertisingPlan.Action], removed: AdvertisingPlan.ID?) {
      for action in actions {
        switch action {
        case .clear(let slot):
          let id = lives.first { $0.value.slot == slot }?.key
          #expect(id == removed || id == nil, "only what its owner took away is cleared")
          if let id { lives[id]?.leaveAir(at: now) }
        case .show(let id, let slot):
          shows += 1
          #expect((0..<slots).contains(slot))
          if let (other, life) = lives.first(where: { $0.value.slot == slot }), let since = life.shownSince {
            displacements += 1
            #expect(since.duration(to: now) >= life.terms.leastTime, "seed \(seed): cut within its least time")
            lives[other]?.leaveAir(at: now)
          }
          #expect(lives[id]?.isReady == true)
          lives[id]?.goOnAir(in: slot, at: now)
        }
      }
      #expect(
        plan.onAir == Dictionary(uniqueKeysWithValues: lives.compactMap { id, life in life.slot.map { ($0, id) } }))
    }

    /// No advertisement waits beyond its longest wait and the least times of all that may be before it.
    func checkWaits() {
      for (_, life) in lives where life.isReady {
        guard let since = life.waitsSince else { continue }
        let rule = life.terms.longestWait + Self.longestLeast * Self.most
        #expect(since.duration(to: now) <= rule, "seed \(seed): waits too long")
      }
    }

    for _ in 0..<25_000 {
      let pause = now.advanced(by: .milliseconds(dice.below(400)))
      while let next = plan.deadline(after: now), next <= pause {
        now = next
        check(plan.handle(.timer, at: now), removed: nil)
        checkWaits()
      }
      now = pause
      let ids = lives.keys.sorted { $0.number < $1.number }
      switch dice.below(4) {
      case 0 where lives.count < Self.most, 1 where lives.isEmpty:
        last += 1
        let id = Self.id(last)
        let terms = Self.terms(
          AdvertisingPriority.allCases[dice.below(5)], least: 100 + dice.below(2000), wait: dice.below(10_000))
        let isReady = dice.below(4) > 0
        lives[id] = Life(terms: terms, isReady: isReady, waitsSince: isReady ? now : nil)
        check(plan.handle(.add(id, terms, isReady: isReady), at: now), removed: nil)
      case 1 where dice.below(3) == 0:
        let id = ids[dice.below(ids.count)]
        let actions = plan.handle(.remove(id), at: now)
        if let slot = lives.removeValue(forKey: id)?.slot { #expect(actions.first == .clear(slot: slot)) }
        check(actions.filter { if case .clear = $0 { false } else { true } }, removed: id)
      case 2 where !ids.isEmpty:
        let id = ids[dice.below(ids.count)]
        let isReady = dice.below(3) > 0
        guard lives[id]?.isReady != isReady else { continue }
        lives[id]?.isReady = isReady
        if isReady { lives[id]?.waitsSince = now }
        check(plan.handle(.ready(id, isReady), at: now), removed: id)
        if !isReady { lives[id]?.waitsSince = nil }
      default: check(plan.handle(.timer, at: now), removed: nil)
      }
      checkWaits()
    }
    #expect(shows > 1000 && displacements > 500, "seed \(seed): \(shows) shows, \(displacements) displacements")
  }
}
