import Common
import Radio

/// Assigns advertisements to the controller's slots. A value type: events and time are inputs, actions are outputs.
///
/// A waiting request takes a free slot, or the slot of a resting set. Otherwise it immediately displaces a request of
/// lower priority, or one of its own priority whose time slice is over, but never during an uninterrupted time. To
/// prevent starvation, each priority down to broadcast sometimes has a time slice instead of a higher one:
/// `docs/sharing.md` describes the rules.
struct AdvertisingPlan: Sendable {
  struct ID: Hashable, Sendable {
    let number: Int
  }

  enum Event: Sendable {
    /// Adds an advertisement, which is broadcast until it is removed. `isReady` is whether its GATT application is
    /// served.
    case add(ID, AdvertisingTerms, isReady: Bool)
    /// Requests the broadcast of a set's data, which is refused after `AdvertisingTerms.longestWait`. An active set
    /// stays in its slot.
    case say(ID, AdvertisingTerms)
    /// The set has no data to send at present. It stays in its slot until another request needs the slot.
    case rest(ID)
    /// The driver has begun to broadcast the advertisement of this request, so its uninterrupted time begins.
    case began(ID)
    /// The GATT application of the advertisement begins (true) or ceases (false) to be served.
    case ready(ID, Bool)
    case remove(ID)
    /// The driver reports the number of advertising slots.
    case slots(Int)
    /// A service begins (true) or ceases (false) to serve a peer. While one does, requests of a priority below
    /// `network` do not begin.
    case serving(Bool)
    /// `deadline` is reached.
    case timer
  }

  enum Action: Hashable, Sendable {
    /// Show the advertisement, or the present data of its set, in this slot, replacing its content.
    case show(ID, slot: Int)
    case clear(slot: Int)
    /// Report that the request is removed, because it has waited for its longest wait.
    case refuse(ID)
  }

  /// Maximum uninterrupted time, regardless of the terms.
  private static let longestUninterrupted = Duration.seconds(4)
  /// Duration of a time slice among requests of equal priority, and minimum duration of a time slice that precedes a
  /// higher priority.
  static let turn = Duration.seconds(2)
  /// Waiting time after which requests of a priority get a time slice although requests of higher priority exist.
  private static let patience = Duration.seconds(8)
  /// Minimum time between two time slices that are given to lower priorities.
  private static let pause = Duration.seconds(2)
  /// Interval between the starts of two time slices of broadcasts, with one slot and an advertisement of priority
  /// `person`.
  private static let broadcastPeriod = Duration.seconds(30)

  var slots: Int
  private var isServing = false
  /// The requests in order of arrival.
  var entries: [Entry] = []
  /// For each priority that has waiting requests and no active one, the time since which this is the case.
  private var waits: [AdvertisingPriority: Instant] = [:]
  /// When each priority last began a time slice in preference to a higher one.
  private var turns: [AdvertisingPriority: Instant] = [:]
  /// When the last time slice ended that a priority had in preference to a higher one.
  private var lastTurnEnd: Instant?

  init(slots: Int) {
    self.slots = max(1, slots)
  }

  /// The active requests by slot.
  var onAir: [Int: ID] {
    entries.reduce(into: [:]) { found, entry in if let slot = entry.slot { found[slot] = entry.id } }
  }

  /// The waiting requests, in the order in which they began to wait.
  var waiting: [ID] { entries.filter(\.isWaiting).sorted { $0.waitingSince < $1.waitingSince }.map(\.id) }

  /// Whether a slot shows the request's advertisement, rather than its set's resting data.
  func shows(_ id: ID) -> Bool { shownSince(id) != nil }

  /// The time since which a slot has shown the request's advertisement.
  func shownSince(_ id: ID) -> Instant? {
    guard let index = index(of: id), case .onAir(_, let since, _) = entries[index].place else { return nil }
    return since
  }

  /// Whether a set is sending data, or is waiting to send it.
  func isSaying(_ id: ID) -> Bool { shows(id) || entries.contains { $0.id == id && $0.isWaiting } }

  /// The advertisements that do not have a slot of their own: they wait, or share a slot with others in time slices.
  var sharing: Set<ID> { Set(entries.filter { !$0.isSet && ($0.isWaiting || $0.isTurn) }.map(\.id)) }

  mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    var actions: [Action] = []
    switch event {
    case .add(let id, let terms, let isReady):
      entries.append(Entry(id: id, terms: terms, isSet: false, isReady: isReady, place: .waiting(since: now)))
    case .say(let id, let terms): say(id, terms, at: now)
    case .rest(let id): actions += rest(id, at: now)
    case .began(let id): began(id, at: now)
    case .ready(let id, let isReady):
      guard let index = index(of: id), entries[index].isReady != isReady else { return [] }
      entries[index].isReady = isReady
      if let slot = entries[index].slot { actions.append(.clear(slot: slot)) }
      endTurn(index, at: now)
      entries[index].place = .waiting(since: now)
    case .remove(let id):
      guard let index = index(of: id) else { return [] }
      endTurn(index, at: now)
      if let slot = entries.remove(at: index).slot { actions.append(.clear(slot: slot)) }
    case .slots(let count):
      slots = max(1, count)
      for slot in entries.compactMap(\.slot).sorted() where slot >= slots {
        vacate(slot, at: now)
        actions.append(.clear(slot: slot))
      }
    case .serving(let isServing): self.isServing = isServing
    case .timer: break
    }
    return actions + arrange(at: now)
  }

  // MARK: Requests

  private mutating func say(_ id: ID, _ terms: AdvertisingTerms, at now: Instant) {
    guard let index = index(of: id) else {
      entries.append(Entry(id: id, terms: terms, isSet: true, isReady: true, place: .waiting(since: now)))
      return
    }
    entries[index].terms = terms
    entries[index].waitedSince = nil
    guard let slot = entries[index].slot else {
      entries[index].place = .waiting(since: now)
      return
    }
    endTurn(index, at: now)
    entries[index].place = .resting(slot: slot, waitsSince: now)
  }

  private mutating func rest(_ id: ID, at now: Instant) -> [Action] {
    guard let index = index(of: id) else { return [] }
    guard let slot = entries[index].slot else {
      entries.remove(at: index)
      return []
    }
    endTurn(index, at: now)
    entries[index].waitedSince = nil
    entries[index].place = .resting(slot: slot, waitsSince: nil)
    return [.show(id, slot: slot)]
  }

  private mutating func began(_ id: ID, at now: Instant) {
    guard let index = index(of: id), case .onAir(let slot, _, let isTurn) = entries[index].place else { return }
    entries[index].place = .onAir(slot: slot, since: now, isTurn: isTurn)
    entries[index].waitedSince = nil
  }

  /// Empties a slot. An advertisement then waits, and so does a set whose data waited or was not yet reported as
  /// active. A set that was sending its data, or rested, is removed.
  private mutating func vacate(_ slot: Int, at now: Instant) {
    guard let index = entries.firstIndex(where: { $0.slot == slot }) else { return }
    endTurn(index, at: now)
    let entry = entries[index]
    entries[index].waitedSince = nil
    switch (entry.place, entry.waitedSince) {
    case (.resting(_, let since?), _), (.onAir, let since?): entries[index].place = .waiting(since: since)
    case (.onAir, nil) where !entry.isSet: entries[index].place = .waiting(since: now)
    default: entries.remove(at: index)
    }
  }

  /// Records the end of a time slice that the request had in preference to a higher priority; has no effect without
  /// one.
  private mutating func endTurn(_ index: Int, at now: Instant) {
    guard case .onAir(let slot, let since, true) = entries[index].place else { return }
    entries[index].place = .onAir(slot: slot, since: since, isTurn: false)
    lastTurnEnd = now
  }

  private func index(of id: ID) -> Int? { entries.firstIndex { $0.id == id } }

  // MARK: Choosing the next request and its slot

  /// When `Event.timer` is due: the time at which another request may begin or is refused; nil if there is none.
  func deadline(after now: Instant) -> Instant? {
    let waiting = entries.filter(\.isWaiting)
    guard !waiting.isEmpty else {
      return entries.lazy.filter(\.isTurn).compactMap(\.uninterruptedUntil).filter { $0 > now }.min()
    }
    var moments = waits.values.map { $0.advanced(by: Self.patience) }
    moments += waiting.filter(\.isSet).map(\.due)
    moments += entries.compactMap(\.uninterruptedUntil)
    moments += entries.compactMap(\.turnUntil)
    moments += [lastTurnEnd?.advanced(by: Self.pause), nextBroadcast].compactMap { $0 }
    return moments.filter { $0 > now }.min()
  }

  private mutating func arrange(at now: Instant) -> [Action] {
    var actions: [Action] = []
    while let step = step(at: now) {
      let index = step.entry
      let id = entries[index].id
      if entries[index].slot != step.slot { vacate(step.slot, at: now) }
      guard let index = entries.firstIndex(where: { $0.id == id }) else { break }
      if entries[index].isSet { entries[index].waitedSince = entries[index].waitingSince }
      entries[index].place = .onAir(slot: step.slot, since: now, isTurn: step.isTurn)
      if step.isTurn { turns[entries[index].priority] = now }
      actions.append(.show(id, slot: step.slot))
    }
    endTurns(at: now)
    actions += refuse(at: now)
    noteWaits(at: now)
    return actions
  }

  /// Records since when each priority as a whole has waited. The refusal of one of its requests does not restart the
  /// time.
  private mutating func noteWaits(at now: Instant) {
    let waiting = Set(candidates.map { entries[$0].priority })
    let shown = Set(entries.filter { $0.isShown }.map(\.priority))
    for priority in AdvertisingPriority.allCases {
      waits[priority] = waiting.contains(priority) && !shown.contains(priority) ? waits[priority] ?? now : nil
    }
  }

  private struct Step {
    let entry: Int
    let slot: Int
    var isTurn = false
  }

  private func step(at now: Instant) -> Step? {
    let candidates = candidates
    for index in candidates {
      if let slot = entries[index].slot ?? freeSlot ?? slotAtRest(for: entries[index]) {
        return Step(entry: index, slot: slot)
      }
    }
    if let (index, slot) = turn(candidates, at: now) { return Step(entry: index, slot: slot, isTurn: true) }
    for index in candidates {
      if let slot = slot(below: entries[index], at: now) { return Step(entry: index, slot: slot) }
    }
    return nil
  }

  /// Requests that may begin, by priority, then by descending waiting time.
  private var candidates: [Int] {
    entries.indices.filter { entries[$0].isWaiting && mayBegin(entries[$0]) }.sorted { left, right in
      let (one, other) = (entries[left], entries[right])
      if one.priority != other.priority { return one.priority > other.priority }
      return (one.waitingSince, left) < (other.waitingSince, right)
    }
  }

  private func mayBegin(_ entry: Entry) -> Bool { !isServing || entry.priority >= .network }

  private var freeSlot: Int? {
    let taken = Set(entries.compactMap(\.slot))
    return (0..<slots).first { !taken.contains($0) }
  }

  /// The slot of a resting set that has no data to send, or otherwise of a resting set of lower priority; nil if there
  /// is neither.
  private func slotAtRest(for entry: Entry) -> Int? {
    let resting = entries.filter { if case .resting = $0.place { true } else { false } }
    return (resting.first { !$0.isWaiting } ?? resting.first { $0.priority < entry.priority })?.slot
  }

  /// The slot that a request may take because of priority: that of the lowest priority, then of the longest active
  /// time.
  private func slot(below entry: Entry, at now: Instant) -> Int? {
    entries.filter { other in
      guard let slotIsKept = other.priority < entry.priority ? other.uninterruptedUntil : other.turnUntil else {
        return false
      }
      return other.priority <= entry.priority && slotIsKept <= now
    }.min { $0.isBefore($1) }?.slot
  }

  // MARK: Time slices of lower priorities

  /// An overdue request, and the slot that it may take from a higher priority. Only one such time slice is active at a
  /// time. If several priorities are overdue, the one with the oldest time slice is first.
  private func turn(_ candidates: [Int], at now: Instant) -> (entry: Int, slot: Int)? {
    guard !entries.contains(where: \.isTurn), lastTurnEnd.map({ $0.advanced(by: Self.pause) <= now }) ?? true
    else { return nil }
    var heads: [AdvertisingPriority: Int] = [:]
    for index in candidates where heads[entries[index].priority] == nil { heads[entries[index].priority] = index }
    let overdue = heads.filter { isOverdue($0.key, at: now) }.sorted { left, right in
      let (one, other) = (turns[left.key] ?? .zero, turns[right.key] ?? .zero)
      return one == other ? left.key > right.key : one < other
    }
    for (priority, index) in overdue {
      // A time slice does not begin shortly before the time slice of a broadcast message is due, which it would delay.
      if priority != .broadcast, heads[.broadcast] != nil, let next = nextBroadcast, next > now,
        now.duration(to: next) < Self.longestUninterrupted + Self.pause
      {
        continue
      }
      let slot = entries.filter { other in
        guard other.priority > priority, let until = other.uninterruptedUntil else { return false }
        return until <= now
      }.min { $0.isBefore($1) }?.slot
      if let slot { return (index, slot) }
    }
    return nil
  }

  private func isOverdue(_ priority: AdvertisingPriority, at now: Instant) -> Bool {
    guard priority >= .broadcast, let since = waits[priority], since.advanced(by: Self.patience) <= now else {
      return false
    }
    return priority != .broadcast || nextBroadcast.map { $0 <= now } ?? true
  }

  /// When broadcasts may have another time slice. Nil if no delay is needed, because there are several slots or no
  /// advertisement for a person.
  private var nextBroadcast: Instant? {
    guard slots == 1, entries.contains(where: { $0.isReady && $0.priority == .person }) else { return nil }
    return turns[.broadcast]?.advanced(by: Self.broadcastPeriod)
  }

  /// Records the end of expired time slices. A request that stays in its slot afterwards no longer has a time slice.
  private mutating func endTurns(at now: Instant) {
    for index in entries.indices {
      if let until = entries[index].uninterruptedUntil, until <= now { endTurn(index, at: now) }
    }
  }

  // MARK: Refusing

  private mutating func refuse(at now: Instant) -> [Action] {
    let late = entries.filter { $0.isSet && $0.isWaiting && $0.due <= now }
    for entry in late {
      guard let index = entries.firstIndex(where: { $0.id == entry.id }) else { continue }
      if let slot = entry.slot {
        entries[index].place = .resting(slot: slot, waitsSince: nil)
      } else {
        entries.remove(at: index)
      }
    }
    return late.map { .refuse($0.id) }
  }
}

extension AdvertisingPlan {
  struct Entry: Sendable {
    let id: ID
    var terms: AdvertisingTerms
    /// Whether the request is for data of a set, which is refused after its longest wait.
    let isSet: Bool
    var isReady: Bool
    var place: Place
    /// When the request began to wait for its present slot; nil once the driver has reported it as active.
    var waitedSince: Instant?
  }

  enum Place: Hashable, Sendable {
    case waiting(since: Instant)
    /// The request is active in a slot. `isTurn`: whether it is there instead of a request of higher priority.
    case onAir(slot: Int, since: Instant, isTurn: Bool)
    /// The set stays in its slot without data to send, or with data that waits since the given time.
    case resting(slot: Int, waitsSince: Instant?)
  }
}

extension AdvertisingPlan.Entry {
  var slot: Int? {
    switch place {
    case .waiting: nil
    case .onAir(let slot, _, _), .resting(let slot, _): slot
    }
  }

  var priority: AdvertisingPriority { terms.priority }

  /// The time at which the request began to wait; nil if it does not wait.
  private var wait: Instant? {
    switch place {
    case .waiting(let since): since
    case .onAir: nil
    case .resting(_, let since): since
    }
  }

  var isWaiting: Bool { isReady && wait != nil }
  var waitingSince: Instant { wait ?? .zero }

  /// The end of the uninterrupted time; nil if the request is not active, or its set rests.
  var uninterruptedUntil: Instant? {
    guard case .onAir(_, let since, let isTurn) = place else { return nil }
    let asked = min(terms.leastTime, AdvertisingPlan.longestUninterrupted)
    return since.advanced(by: isTurn ? max(asked, AdvertisingPlan.turn) : asked)
  }

  /// The time from which a request of equal priority may displace this one.
  var turnUntil: Instant? {
    guard case .onAir(_, let since, _) = place, let until = uninterruptedUntil else { return nil }
    return max(until, since.advanced(by: AdvertisingPlan.turn))
  }
}

extension AdvertisingPlan.Entry {
  /// The time at which the waiting request of a set is refused.
  var due: Instant { waitingSince.advanced(by: terms.longestWait) }

  /// Whether the request is active and its set does not rest.
  var isShown: Bool { if case .onAir = place { true } else { false } }

  var isTurn: Bool { if case .onAir(_, _, let isTurn) = place { isTurn } else { false } }

  private var onAirSince: Instant { if case .onAir(_, let since, _) = place { since } else { .zero } }

  /// Whether this request is displaced from its slot before `other`: its priority is lower, or it has been active for
  /// longer.
  func isBefore(_ other: Self) -> Bool {
    if priority != other.priority { return priority < other.priority }
    return (onAirSince, slot ?? 0) < (other.onAirSince, other.slot ?? 0)
  }
}
