import Common
import Radio

/// The choice of the next request and its slot.
extension AdvertisingPlan {
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

  mutating func arrange(at now: Instant) -> [Action] {
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

  /// Records since when each priority as a whole has waited. The refusal of one of its requests does not restart the time.
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

  /// The slot of a resting set without data to send, or else of a resting set of lower priority.
  private func slotAtRest(for entry: Entry) -> Int? {
    let resting = entries.filter { if case .resting = $0.place { true } else { false } }
    return (resting.first { !$0.isWaiting } ?? resting.first { $0.priority < entry.priority })?.slot
  }

  /// The slot that a request may take because of priority: that of the lowest priority, then of the longest active time.
  private func slot(below entry: Entry, at now: Instant) -> Int? {
    entries.filter { other in
      guard let slotIsKept = other.priority < entry.priority ? other.uninterruptedUntil : other.turnUntil else {
        return false
      }
      return other.priority <= entry.priority && slotIsKept <= now
    }.min { $0.isBefore($1) }?.slot
  }

  // MARK: Turns instead of a higher priority

  /// An overdue request, and the slot that it may take from a higher priority. Only one such turn is active at a time; of several overdue
  /// priorities, the one whose last turn was longest ago is first.
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
      // A turn must not delay a broadcast whose own turn is imminent.
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

  /// When broadcasts may have another turn. Nil if a turn needs no delay, because there are several slots or no
  /// advertisement for a person.
  private var nextBroadcast: Instant? {
    guard slots == 1, entries.contains(where: { $0.isReady && $0.priority == .person }) else { return nil }
    return turns[.broadcast]?.advanced(by: Self.broadcastPeriod)
  }

  /// Ends turns whose time is over, so that a request that keeps its slot no longer counts as having a turn.
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
