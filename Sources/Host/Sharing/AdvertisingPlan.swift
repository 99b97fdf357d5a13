import Common
import Radio

/// Assigns advertisements to the controller's slots. A value type: events and time are inputs, actions are outputs.
///
/// A waiting request takes a free slot, or the slot of a resting set. Otherwise it immediately displaces a request of lower priority, or
/// one of its own priority whose turn is over, but never during an uninterrupted time. To prevent starvation, each priority down to
/// broadcast sometimes has a turn instead of a higher one: `docs/sharing.md` describes the rules.
struct AdvertisingPlan: Sendable {
  struct ID: Hashable, Sendable {
    let number: Int
  }

  enum Event: Sendable {
    /// An advertisement, to be broadcast until it is removed. `isReady`: whether its application is served.
    case add(ID, AdvertisingTerms, isReady: Bool)
    /// Data of a set, which is refused after its longest wait. An active set keeps its slot.
    case say(ID, AdvertisingTerms)
    /// The set has no data to send, and keeps its slot until a request needs it.
    case rest(ID)
    /// The driver broadcasts the request's advertisement: its uninterrupted time begins.
    case began(ID)
    /// Whether the advertisement's application is served.
    case ready(ID, Bool)
    case remove(ID)
    /// The number of slots.
    case slots(Int)
    /// Whether a service serves a peer: requests below the priority `network` do not begin meanwhile.
    case serving(Bool)
    /// `deadline` is reached.
    case timer
  }

  enum Action: Hashable, Sendable {
    /// Show the advertisement, or the present data of its set, in this slot, replacing its content.
    case show(ID, slot: Int)
    case clear(slot: Int)
    /// The request has reached its longest wait, and is removed.
    case refuse(ID)
  }

  /// Maximum uninterrupted time, regardless of the terms.
  static let longestUninterrupted = Duration.seconds(4)
  /// Duration of turns among requests of one priority, and minimum duration of a turn instead of a higher priority.
  static let turn = Duration.seconds(2)
  /// Waiting time after which a priority has a turn instead of a higher one.
  static let patience = Duration.seconds(8)
  /// Pause between two turns instead of a higher priority.
  static let pause = Duration.seconds(2)
  /// Interval between the starts of two turns of broadcasts, with one slot and an advertisement of priority `person`.
  static let broadcastPeriod = Duration.seconds(30)

  var slots: Int
  var isServing = false
  /// The requests in order of arrival.
  var entries: [Entry] = []
  /// The time since which each priority has had waiting requests, and no active ones.
  var waits: [AdvertisingPriority: Instant] = [:]
  /// When each priority last began a turn instead of a higher one.
  var turns: [AdvertisingPriority: Instant] = [:]
  /// When the last such turn ended.
  var lastTurnEnd: Instant?

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

  /// Whether a set sends data, or waits to send it.
  func isSaying(_ id: ID) -> Bool { shows(id) || entries.contains { $0.id == id && $0.isWaiting } }

  /// The advertisements that wait, or have a turn instead of a higher priority.
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

  /// Empties a slot. An advertisement then waits, and so does a set whose data waited or was not yet reported as active. A set that was
  /// sending its data, or rested, is removed.
  mutating func vacate(_ slot: Int, at now: Instant) {
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

  /// Records the end of a turn, if the request had one.
  mutating func endTurn(_ index: Int, at now: Instant) {
    guard case .onAir(let slot, let since, true) = entries[index].place else { return }
    entries[index].place = .onAir(slot: slot, since: since, isTurn: false)
    lastTurnEnd = now
  }

  private func index(of id: ID) -> Int? { entries.firstIndex { $0.id == id } }
}
