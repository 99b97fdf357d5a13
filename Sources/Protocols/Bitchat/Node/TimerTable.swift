import Common

/// Deadlines of the machines of a node, and the first of them.
struct TimerTable: Sendable {
  /// Machine, or part of one, with a deadline.
  enum Timer: Int, CaseIterable, Sendable {
    case neighbourhood, relays, transmitter, sessions, gate, fragments, dialects, challenges, pings
    /// Unsolicited packets, which wait until the clock is known to be right.
    case gossip, messages, courier, files, repair

    /// Timers that do not count before the clock is known to be right.
    static let unsolicited: [Timer] = [.gossip, .messages, .courier, .files, .repair]
  }

  /// Value of a timer without a deadline.
  private static let never = Int64.max

  /// Deadlines in nanoseconds, by number of the timer.
  private var deadlines = [Int64](repeating: never, count: Timer.allCases.count)
  private var earliest = never

  /// First deadline; nil without any.
  var first: Instant? { earliest == Self.never ? nil : Instant(nanoseconds: earliest) }

  /// Whether a deadline has come.
  func isDue(at now: Instant) -> Bool { earliest <= now.nanoseconds && earliest != Self.never }

  /// Sets the deadline of a timer; nil for none.
  mutating func set(_ timer: Timer, _ deadline: Instant?) {
    let (before, after) = (deadlines[timer.rawValue], deadline?.nanoseconds ?? Self.never)
    guard after != before else { return }
    deadlines[timer.rawValue] = after
    if after <= earliest {
      earliest = after
    } else if before == earliest {
      earliest = deadlines.min() ?? Self.never
    }
  }

  mutating func removeAll() { self = TimerTable() }
}
