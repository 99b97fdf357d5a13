import Common
import Radio

extension AdvertisingPlan {
  struct Entry: Sendable {
    let id: ID
    var terms: AdvertisingTerms
    /// Whether it is what a set says, which is refused after its longest wait.
    let isSet: Bool
    var isReady: Bool
    var place: Place
    /// Since when it waited for the place that it has, until the driver has it on the air there.
    var waitedSince: Instant?
  }

  enum Place: Hashable, Sendable {
    case waiting(since: Instant)
    /// `isTurn`: in place of a request of higher priority.
    case onAir(slot: Int, since: Instant, isTurn: Bool)
    /// A set that is on the air with nothing to say; or with something, for which it waits since then.
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

  /// Since when it waits; nil while it does not.
  private var wait: Instant? {
    switch place {
    case .waiting(let since): since
    case .onAir: nil
    case .resting(_, let since): since
    }
  }

  var isWaiting: Bool { isReady && wait != nil }
  var waitingSince: Instant { wait ?? .zero }

  /// Until when nothing may displace it; nil while it is not on the air, or rests.
  var uninterruptedUntil: Instant? {
    guard case .onAir(_, let since, let isTurn) = place else { return nil }
    let asked = min(terms.leastTime, AdvertisingPlan.longestUninterrupted)
    return since.advanced(by: isTurn ? max(asked, AdvertisingPlan.turn) : asked)
  }

  /// Until when a request of its own priority lets it be.
  var turnUntil: Instant? {
    guard case .onAir(_, let since, _) = place, let until = uninterruptedUntil else { return nil }
    return max(until, since.advanced(by: AdvertisingPlan.turn))
  }
}

extension AdvertisingPlan.Entry {
  /// When a set's request is refused.
  var due: Instant { waitingSince.advanced(by: terms.longestWait) }

  /// Whether it is on the air, and does not merely rest there.
  var isShown: Bool { if case .onAir = place { true } else { false } }

  var isTurn: Bool { if case .onAir(_, _, let isTurn) = place { isTurn } else { false } }

  private var onAirSince: Instant { if case .onAir(_, let since, _) = place { since } else { .zero } }

  /// The order in which slots are taken from those that have them.
  func isBefore(_ other: Self) -> Bool {
    if priority != other.priority { return priority < other.priority }
    return (onAirSince, slot ?? 0) < (other.onAirSince, other.slot ?? 0)
  }
}
