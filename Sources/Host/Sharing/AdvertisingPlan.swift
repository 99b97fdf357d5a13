import Common
import Radio

/// Decides which advertisement is in which of the controller's slots. A value: events and time in, actions out.
///
/// A request that waits takes a free slot, or the slot of a set that rests; else it displaces a request of lower priority at
/// once, or one of its own priority that has had its turn, but never out of an uninterrupted time. So that no priority down to
/// broadcast waits for ever, each has a turn now and then in place of a higher one: `docs/sharing.md` has the rules.
struct AdvertisingPlan: Sendable {
  struct ID: Hashable, Sendable {
    let number: Int
  }

  enum Event: Sendable {
    /// An advertisement that is to be on the air until it is removed. `isReady`: whether its application is served.
    case add(ID, AdvertisingTerms, isReady: Bool)
    /// What a set says: refused after its longest wait. A set that is on the air already stays there.
    case say(ID, AdvertisingTerms)
    /// The set needs to be on the air no longer, and stays until a request wants its place.
    case rest(ID)
    /// The driver has what the request shows on the air: its uninterrupted time begins.
    case began(ID)
    /// Whether the application that the advertisement is for is served.
    case ready(ID, Bool)
    case remove(ID)
    /// How many slots there are.
    case slots(Int)
    /// Whether a service serves somebody: nothing of a priority below `network` begins meanwhile.
    case serving(Bool)
    /// `deadline` has come.
    case timer
  }

  enum Action: Hashable, Sendable {
    /// Put the advertisement into the slot, in place of what is there, or show what its set says now.
    case show(ID, slot: Int)
    case clear(slot: Int)
    /// The request has waited for its longest wait, and is forgotten.
    case refuse(ID)
  }

  /// The longest uninterrupted time, whatever the terms say.
  static let longestUninterrupted = Duration.seconds(4)
  /// By how long requests of one priority take turns, and how long a turn in place of a higher priority is at least.
  static let turn = Duration.seconds(2)
  /// How long a priority waits before it has a turn in place of a higher one.
  static let patience = Duration.seconds(8)
  /// Between two turns in place of a higher priority.
  static let pause = Duration.seconds(2)
  /// Between the beginnings of two turns of broadcasts, where there is one slot and an advertisement of priority `person`.
  static let broadcastPeriod = Duration.seconds(30)

  var slots: Int
  var isServing = false
  /// In the order in which they came.
  var entries: [Entry] = []
  /// Since when each priority has had requests that wait, and none on the air.
  var waits: [AdvertisingPriority: Instant] = [:]
  /// When each priority last began a turn in place of a higher one.
  var turns: [AdvertisingPriority: Instant] = [:]
  /// When the last such turn ended.
  var lastTurnEnd: Instant?

  init(slots: Int) {
    self.slots = max(1, slots)
  }

  /// The advertisements on the air, by their slots.
  var onAir: [Int: ID] {
    entries.reduce(into: [:]) { found, entry in if let slot = entry.slot { found[slot] = entry.id } }
  }

  /// Those that wait for a place, in the order in which they began to.
  var waiting: [ID] { entries.filter(\.isWaiting).sorted { $0.waitingSince < $1.waitingSince }.map(\.id) }

  /// Whether what a request shows is in a slot, and not what its set says while it rests.
  func shows(_ id: ID) -> Bool { shownSince(id) != nil }

  /// Since when what a request shows is in a slot.
  func shownSince(_ id: ID) -> Instant? {
    guard let index = index(of: id), case .onAir(_, let since, _) = entries[index].place else { return nil }
    return since
  }

  /// Whether a set says something, or waits to.
  func isSaying(_ id: ID) -> Bool { shows(id) || entries.contains { $0.id == id && $0.isWaiting } }

  /// The advertisements that wait, or have a turn in place of a higher priority.
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

  /// Takes what is in a slot off the air. An advertisement waits, and so does a set that waited to say something, or that the
  /// driver did not have on the air yet; of a set that was saying it, or rested, nothing more is to be done.
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

  /// Notes the end of a turn, if the request had one.
  mutating func endTurn(_ index: Int, at now: Instant) {
    guard case .onAir(let slot, let since, true) = entries[index].place else { return }
    entries[index].place = .onAir(slot: slot, since: since, isTurn: false)
    lastTurnEnd = now
  }

  private func index(of id: ID) -> Int? { entries.firstIndex { $0.id == id } }
}
