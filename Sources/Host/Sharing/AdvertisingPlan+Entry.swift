import Common
import Radio

extension AdvertisingPlan {
  struct Entry: Sendable {
    let id: ID
    var terms: AdvertisingTerms
    /// Whether it is data of a set, which is refused after its longest wait.
    let isSet: Bool
    var isReady: Bool
    var place: Place
    /// When it began to wait for its present slot; nil once the driver has reported it as active.
    var waitedSince: Instant?
  }

  enum Place: Hashable, Sendable {
    case waiting(since: Instant)
    /// `isTurn`: instead of a request of higher priority.
    case onAir(slot: Int, since: Instant, isTurn: Bool)
    /// A set that keeps its slot without data to send, or with data that waits since then.
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

  /// When it began to wait; nil if it does not wait.
  private var wait: Instant? {
    switch place {
    case .waiting(let since): since
    case .onAir: nil
    case .resting(_, let since): since
    }
  }

  var isWaiting: Bool { isReady && wait != nil }
  var waitingSince: Instant { wait ?? .zero }

  /// The end of its uninterrupted time; nil if it is not active, or rests.
  var uninterruptedUntil: Instant? {
    guard case .onAir(_, let since, let isTurn) = place else { return nil }
    let asked = min(terms.leastTime, AdvertisingPlan.longestUninterrupted)
    return since.advanced(by: isTurn ? max(asked, AdvertisingPlan.turn) : asked)
  }

  /// When a request of the same priority may displace it.
  var turnUntil: Instant? {
    guard case .onAir(_, let since, _) = place, let until = uninterruptedUntil else { return nil }
    return max(until, since.advanced(by: AdvertisingPlan.turn))
  }
}

extension AdvertisingPlan.Entry {
  /// When a set's request is refused.
  var due: Instant { waitingSince.advanced(by: terms.longestWait) }

  /// Whether it is active and does not rest.
  var isShown: Bool { if case .onAir = place { true } else { false } }

  var isTurn: Bool { if case .onAir(_, _, let isTurn) = place { isTurn } else { false } }

  private var onAirSince: Instant { if case .onAir(_, let since, _) = place { since } else { .zero } }

  /// The order in which active requests lose their slots.
  func isBefore(_ other: Self) -> Bool {
    if priority != other.priority { return priority < other.priority }
    return (onAirSince, slot ?? 0) < (other.onAirSince, other.slot ?? 0)
  }
}
