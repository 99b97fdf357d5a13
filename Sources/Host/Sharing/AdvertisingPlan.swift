import Common
import Radio

/// Decides which advertisement is in which of the controller's slots. A value: events and time in, actions out.
///
/// An advertisement that waits takes a free slot; else it displaces one that has had its least time: one of lower priority,
/// or of the same (they take turns), or, once it has waited for its longest wait, any. It keeps its slot for its own least
/// time, and then the plan decides again: what was displaced comes back by the same rules.
struct AdvertisingPlan: Sendable {
  struct ID: Hashable, Sendable {
    let number: Int
  }

  enum Event: Sendable {
    /// One that is on the air already stays there, with a least time of its own.
    case add(ID, AdvertisingTerms, isReady: Bool)
    /// It needs to be on the air no longer, and stays until another one wants its place.
    case rest(ID)
    /// Whether the application that the advertisement is for is served.
    case ready(ID, Bool)
    case remove(ID)
    /// How many slots there are.
    case slots(Int)
    /// `deadline` has come.
    case timer
  }

  enum Action: Hashable, Sendable {
    /// Put the advertisement into the slot, in place of what is there.
    case show(ID, slot: Int)
    case clear(slot: Int)
  }

  fileprivate struct Entry: Sendable {
    let id: ID
    var terms: AdvertisingTerms
    var isResting = false
    var isReady: Bool
    var place: Place
  }

  fileprivate enum Place: Hashable, Sendable {
    case waiting(since: Instant)
    case onAir(slot: Int, since: Instant)
  }

  /// The least time of an advertisement whose terms ask for less.
  static let shortestTime = Duration.milliseconds(100)

  private var slots: Int
  /// In the order in which they came.
  private var entries: [Entry] = []

  init(slots: Int) {
    self.slots = max(1, slots)
  }

  /// The advertisements on the air, by their slots.
  var onAir: [Int: ID] {
    entries.reduce(into: [:]) { found, entry in if let slot = entry.slot { found[slot] = entry.id } }
  }

  mutating func handle(_ event: Event, at now: Instant) -> [Action] {
    var actions: [Action] = []
    switch event {
    case .add(let id, let terms, let isReady):
      if let index = index(of: id), let slot = entries[index].slot {
        (entries[index].terms, entries[index].isResting) = (terms, false)
        entries[index].place = .onAir(slot: slot, since: now)
        actions.append(.show(id, slot: slot))
      } else {
        entries.removeAll { $0.id == id }
        entries.append(Entry(id: id, terms: terms, isReady: isReady, place: .waiting(since: now)))
      }
    case .rest(let id):
      guard let index = index(of: id) else { return [] }
      guard let slot = entries[index].slot else {
        entries.remove(at: index)
        break
      }
      entries[index].isResting = true
      actions.append(.show(id, slot: slot))
    case .ready(let id, let isReady):
      guard let index = index(of: id), entries[index].isReady != isReady else { return [] }
      if let slot = entries[index].slot { actions.append(.clear(slot: slot)) }
      entries[index].isReady = isReady
      entries[index].place = .waiting(since: now)
    case .remove(let id):
      guard let index = index(of: id) else { return [] }
      if let slot = entries.remove(at: index).slot { actions.append(.clear(slot: slot)) }
    case .slots(let count):
      slots = max(1, count)
      for index in entries.indices {
        guard let slot = entries[index].slot, slot >= slots else { continue }
        entries[index].place = .waiting(since: now)
        actions.append(.clear(slot: slot))
      }
      entries.removeAll { $0.isResting && $0.slot == nil }
    case .timer: break
    }
    return actions + arrange(at: now)
  }

  /// When `Event.timer` is due: the moment from which another advertisement may go on the air; nil while all are.
  func deadline(after now: Instant) -> Instant? {
    let waiting = entries.filter(\.isWaiting)
    guard !waiting.isEmpty else { return nil }
    let free = entries.compactMap(\.uninterruptedUntil)
    return (waiting.map(\.due) + free).filter { $0 > now }.min()
  }

  // MARK: Deciding

  private mutating func arrange(at now: Instant) -> [Action] {
    var actions: [Action] = []
    while let next = nextWaiting(at: now), let slot = freeSlot ?? slot(for: entries[next], at: now) {
      if let index = entries.firstIndex(where: { $0.slot == slot }) { entries[index].place = .waiting(since: now) }
      entries[next].place = .onAir(slot: slot, since: now)
      actions.append(.show(entries[next].id, slot: slot))
      entries.removeAll { $0.isResting && $0.slot == nil }
    }
    return actions
  }

  /// Those who waited too long come first, the longest overdue at the head; then by priority, then by time.
  private func nextWaiting(at now: Instant) -> Int? {
    entries.indices.filter { entries[$0].isWaiting }.min { left, right in
      let (left, right) = (entries[left], entries[right])
      let (isLate, isOtherLate) = (left.due <= now, right.due <= now)
      if isLate != isOtherLate { return isLate }
      if isLate, left.due != right.due { return left.due < right.due }
      if left.terms.priority != right.terms.priority { return left.terms.priority > right.terms.priority }
      return left.waitingSince < right.waitingSince
    }
  }

  private var freeSlot: Int? {
    let taken = Set(entries.compactMap(\.slot))
    return (0..<slots).first { !taken.contains($0) }
  }

  /// The slot that the entry may take from another: of the lowest priority, then the one that has been on the air longest.
  private func slot(for entry: Entry, at now: Instant) -> Int? {
    if let resting = entries.first(where: { $0.isResting && $0.slot != nil }) { return resting.slot }
    return entries.filter { other in
      guard let end = other.uninterruptedUntil, end <= now else { return false }
      return entry.due <= now || other.terms.priority <= entry.terms.priority
    }.min {
      ($0.terms.priority, $0.onAirSince, $0.slot ?? 0) < ($1.terms.priority, $1.onAirSince, $1.slot ?? 0)
    }?.slot
  }

  private func index(of id: ID) -> Int? { entries.firstIndex { $0.id == id } }
}

extension AdvertisingPlan.Entry {
  fileprivate var slot: Int? { if case .onAir(let slot, _) = place { slot } else { nil } }

  fileprivate var isWaiting: Bool { isReady && slot == nil }

  fileprivate var onAirSince: Instant { if case .onAir(_, let since) = place { since } else { .zero } }

  fileprivate var waitingSince: Instant { if case .waiting(let since) = place { since } else { .zero } }

  /// When it has waited for its longest wait.
  fileprivate var due: Instant { waitingSince.advanced(by: terms.longestWait) }

  /// Until when nothing may displace it; nil while it waits.
  fileprivate var uninterruptedUntil: Instant? {
    if case .onAir(_, let since) = place {
      since.advanced(by: max(terms.leastTime, AdvertisingPlan.shortestTime))
    } else {
      nil
    }
  }
}
