import Common
import Radio
import TestSupport
import Testing

@testable import Sharing

/// Random events in `AdvertisingPlan` without a driver, with a check of its invariants after each step.
@Suite("The plan of advertisements under random requests")
struct AdvertisingPlanRandomTests {
  /// An observer's record of one request.
  private struct Life {
    let priority: AdvertisingPriority
    /// The uninterrupted time that the terms of the current data require.
    var least: Duration
    let isSet: Bool
    var isReady = true
    var waitsSince: Instant?
    var shownSince: Instant?
    var slot: Int?
    /// Whether the request is a set without data to send.
    var isResting = false
    /// The moment when the driver will send the set's data; nil where it does already, or is not to.
    var confirmedAt: Instant?
    /// When the set began to wait for its slot.
    var askedAt: Instant?
    /// When the request lost its slot before the driver had begun to send it.
    var displacedAt: Instant?
    var wait: Duration

    var until: Instant? { shownSince?.advanced(by: min(least, .seconds(4))) }
  }

  private struct World {
    let seed: UInt64
    var dice: Dice
    var plan: AdvertisingPlan
    var slots: Int
    var isServing = false
    var lives: [AdvertisingPlan.ID: Life] = [:]
    var now = Instant.zero
    /// For each priority, the moment since which a request has waited and none was being sent.
    var classWaits: [AdvertisingPriority: Instant] = [:]
    var broadcastTurns: [Instant] = []
    var counts: [String: Int] = [:]
    var faults: [String] = []
    private var lastNumber = 0

    init(_ seed: UInt64) {
      self.seed = seed
      dice = Dice(seed)
      slots = 1 + dice.below(3)
      plan = AdvertisingPlan(slots: slots)
    }

    mutating func fault(_ words: String) { if faults.count < 5 { faults.append("\(words) at \(now.nanoseconds)") } }

    mutating func count(_ what: String) { counts[what, default: 0] += 1 }

    // MARK: Actions of the plan

    /// - Parameter owner: the request whose owner changed it, which may therefore lose its slot.
    mutating func handle(_ event: AdvertisingPlan.Event, owner: AdvertisingPlan.ID? = nil) {
      for action in plan.handle(event, at: now) {
        switch action {
        case .clear(let slot): leave(slot, isOwners: true)
        case .show(let id, let slot): show(id, slot, owner)
        case .refuse(let id): refuse(id)
        }
      }
      check()
    }

    private mutating func leave(_ slot: Int, isOwners: Bool) {
      guard let id = lives.first(where: { $0.value.slot == slot })?.key, let life = lives[id] else { return }
      if !isOwners, !life.isResting, let until = life.until, until > now { fault("cut in its uninterrupted time") }
      // A request that was not being sent yet keeps its waiting time.
      if life.confirmedAt != nil {
        count("displaced unseen")
        lives[id]?.waitsSince = life.askedAt
        lives[id]?.displacedAt = now
      }
      let isOver = life.isSet && lives[id]?.waitsSince == nil
      lives[id]?.confirmedAt = nil
      lives[id]?.slot = nil
      lives[id]?.shownSince = nil
      lives[id]?.isResting = false
      if isOver { lives[id] = nil } else if lives[id]?.waitsSince == nil { lives[id]?.waitsSince = now }
    }

    private mutating func show(_ id: AdvertisingPlan.ID, _ slot: Int, _ owner: AdvertisingPlan.ID?) {
      guard let life = lives[id] else { return fault("shown though it is gone") }
      if life.slot == slot, life.isResting, life.waitsSince == nil { return }
      if !(0..<slots).contains(slot) { fault("a slot that is not there") }
      if life.waitsSince == nil || !life.isReady { fault("shown though it does not wait") }
      if isServing, life.priority < .network { fault("begun while somebody is served") }
      if let other = lives.first(where: { $0.value.slot == slot && $0.key != id }) {
        count(other.value.priority > life.priority ? "turns" : "displacements")
        if other.value.priority > life.priority, life.priority == .broadcast, slots == 1 { noteBroadcastTurn() }
        leave(slot, isOwners: false)
      }
      if life.slot.map({ $0 != slot }) ?? false { fault("moved from slot to slot") }
      count("shows")
      if life.isSet {
        lives[id]?.askedAt = life.waitsSince
        lives[id]?.confirmedAt = now.advanced(by: .milliseconds(dice.below(3) == 0 ? dice.below(6000) : dice.below(20)))
      }
      lives[id]?.waitsSince = nil
      lives[id]?.isResting = false
      lives[id]?.slot = slot
      lives[id]?.shownSince = now
    }

    private mutating func noteBroadcastTurn() {
      guard lives.values.contains(where: { $0.priority == .person && $0.isReady }) else { return }
      if let last = broadcastTurns.last, last.duration(to: now) < .seconds(30) { fault("two broadcasts in 30 s") }
      broadcastTurns.append(now)
    }

    private mutating func refuse(_ id: AdvertisingPlan.ID) {
      guard let life = lives[id], let since = life.waitsSince, life.isSet else { return fault("refused for nothing") }
      count("refusals")
      // A request that loses its slot before it is sent may have exceeded its longest wait by then.
      let wait = since.duration(to: now)
      if wait < life.wait || wait > life.wait && life.displacedAt != now { fault("refused too early or too late") }
      if life.slot == nil { lives[id] = nil } else { lives[id]?.waitsSince = nil }
    }

    // MARK: Invariants

    private mutating func check() {
      let onAir = Dictionary(lives.compactMap { id, life in life.slot.map { ($0, id) } }) { first, _ in first }
      if onAir != plan.onAir || onAir.count != lives.values.count(where: { $0.slot != nil }) {
        fault("another picture")
      }
      if onAir.count > slots { fault("more on the air than there are slots") }
      for life in lives.values {
        guard let since = life.waitsSince, life.isReady else { continue }
        if life.isSet, since.duration(to: now) > life.wait { fault("not refused") }
        guard !isServing || life.priority >= .network else { continue }
        if onAir.count < slots { fault("a slot is free, and somebody waits") }
        if lives.values.contains(where: { $0.isResting && $0.waitsSince == nil }) {
          fault("somebody rests while another waits")
        }
      }
      checkClasses()
    }

    /// Checks that no priority down to broadcast waits over 30 s until one of its requests is sent.
    private mutating func checkClasses() {
      for priority in AdvertisingPriority.allCases where priority >= .broadcast {
        let members = lives.values.filter { $0.priority == priority && $0.isReady }
        let isOnAir = members.contains { $0.slot != nil && !$0.isResting }
        let waits = members.compactMap(\.waitsSince).min()
        guard let waits, !isOnAir, !isServing || priority >= .network else {
          classWaits[priority] = nil
          continue
        }
        let since = classWaits[priority] ?? max(waits, now)
        classWaits[priority] = since
        // Where one broadcast in 30 s is the rule, the current request may use its uninterrupted time before the next
        // one.
        let next = slots == 1 && priority == .broadcast ? broadcastTurns.last?.advanced(by: .seconds(34)) : nil
        if since.duration(to: now) > .seconds(30), now > next ?? .zero {
          fault("priority \(priority) waits over 30 s with \(slots) slots")
        }
      }
    }

    // MARK: Random events

    mutating func pass() {
      let end = now.advanced(by: .milliseconds(dice.below(600)))
      while true {
        let confirmed = lives.filter { $0.value.confirmedAt != nil }
          .min { ($0.value.confirmedAt ?? end, $0.key.number) < ($1.value.confirmedAt ?? end, $1.key.number) }
        let moment = confirmed?.value.confirmedAt ?? end.advanced(by: .seconds(1))
        let deadline = plan.deadline(after: now) ?? end.advanced(by: .seconds(1))
        guard min(moment, deadline) <= end else { break }
        now = max(now, min(moment, deadline))
        if let confirmed, moment <= deadline { confirm(confirmed.key) } else { handle(.timer) }
      }
      now = end
    }

    /// Reports that the driver has begun to send the request, from which its uninterrupted time counts.
    private mutating func confirm(_ id: AdvertisingPlan.ID) {
      lives[id]?.confirmedAt = nil
      lives[id]?.shownSince = now
      handle(.began(id))
    }

    mutating func happen() {
      let ids = lives.keys.sorted { $0.number < $1.number }
      guard let some = ids.isEmpty ? nil : ids[dice.below(ids.count)], let life = lives[some] else { return ask() }
      switch dice.below(12) {
      case 0...3 where lives.count < 8: ask()
      case 0...5:
        if life.isSet { say(some) } else if dice.below(4) == 0 { toggle(some) }
      case 6...7 where life.isSet:
        if let until = life.until, until <= now, life.confirmedAt == nil { rest(some) }
      case 8 where dice.below(3) == 0:
        lives[some] = nil
        handle(.remove(some), owner: some)
      case 9 where dice.below(10) == 0:
        isServing.toggle()
        handle(.serving(isServing))
      case 10 where dice.below(40) == 0:
        slots = 1 + dice.below(3)
        (classWaits, broadcastTurns) = ([:], [])
        handle(.slots(slots))
      default: handle(.timer)
      }
    }

    private mutating func ask() {
      lastNumber += 1
      let id = AdvertisingPlan.ID(number: lastNumber)
      if dice.below(2) == 0 {
        let priority: AdvertisingPriority = [.person, .network, .presence][dice.below(3)]
        let isReady = dice.below(4) > 0
        lives[id] = Life(
          priority: priority, least: .zero, isSet: false, isReady: isReady, waitsSince: isReady ? now : nil, wait: .zero
        )
        handle(.add(id, AdvertisingTerms(priority), isReady: isReady))
      } else {
        let priority: AdvertisingPriority = [.presence, .broadcast, .broadcast, .notify][dice.below(4)]
        lives[id] = Life(priority: priority, least: .zero, isSet: true, wait: .zero)
        say(id)
      }
    }

    private mutating func say(_ id: AdvertisingPlan.ID) {
      guard let life = lives[id] else { return }
      let least = Duration.milliseconds(dice.below(2) == 0 ? 4000 : dice.below(6000))
      let wait = Duration.milliseconds(1000 + dice.below(40_000))
      lives[id]?.least = least
      lives[id]?.wait = wait
      lives[id]?.waitsSince = now
      lives[id]?.shownSince = nil
      lives[id]?.confirmedAt = nil
      lives[id]?.isResting = life.slot != nil
      handle(.say(id, AdvertisingTerms(life.priority, leastTime: least, longestWait: wait)), owner: id)
    }

    private mutating func rest(_ id: AdvertisingPlan.ID) {
      lives[id]?.isResting = true
      lives[id]?.waitsSince = nil
      handle(.rest(id), owner: id)
    }

    private mutating func toggle(_ id: AdvertisingPlan.ID) {
      guard let isReady = lives[id]?.isReady else { return }
      lives[id]?.isReady = !isReady
      if isReady { lives[id]?.waitsSince = nil } else { lives[id]?.waitsSince = now }
      handle(.ready(id, !isReady), owner: id)
      if isReady { lives[id]?.waitsSince = nil }
    }
  }

  @Test(
    "In 25,000 random requests each slot has one advertisement, and minimum times and maximum waits hold",
    arguments: [1, 2, 3, 4] as [UInt64])
  func random(seed: UInt64) {
    var world = World(seed)
    for _ in 0..<25_000 {
      world.pass()
      world.happen()
      guard world.faults.isEmpty else { break }
    }
    #expect(world.faults == [], "seed \(seed), \(world.counts)")
    for what in ["shows", "displacements", "turns", "refusals"] {
      #expect(world.counts[what, default: 0] > 100, "seed \(seed): \(what) are too few to say anything")
    }
    #expect(world.counts["displaced unseen", default: 0] > 10, "seed \(seed)")
  }
}
