import Common

/// Deadlines of the machines of a node, and the first time at which the node must wake up for one.
///
/// Work that does not depend on the moment has a deadline and a latest time. After the deadline, the node does the work
/// when it is awake for another reason. At the latest time it wakes up for this work alone.
struct TimerTable: Sendable {
  /// A machine of the engine, or a part of one, that has a deadline of its own.
  enum Timer: Int, CaseIterable, Sendable {
    case neighbourhood, relays, transmitter, sessions, gate, fragments, versions, challenges, pings
    /// Unsolicited packets, which are not sent before the clock is trusted.
    case gossip, messages, courier, uplink, files, repair

    /// Timers that have no effect before the clock is trusted.
    static let unsolicited: [Timer] = [.gossip, .messages, .courier, .uplink, .files, .repair]
  }

  /// The time of a timer that has no deadline.
  private static let never = Int64.max

  /// Times in nanoseconds, by number of the timer, and the earliest of them.
  private struct Times: Sendable {
    private var times = [Int64](repeating: never, count: Timer.allCases.count)
    private(set) var earliest = never

    mutating func set(_ timer: Timer, _ time: Instant?) {
      let (before, after) = (times[timer.rawValue], time?.nanoseconds ?? never)
      guard after != before else { return }
      times[timer.rawValue] = after
      if after <= earliest {
        earliest = after
      } else if before == earliest {
        earliest = times.min() ?? never
      }
    }
  }

  private var deadlines = Times()
  private var latest = Times()

  /// Time of the next wake-up; nil without any timer.
  var first: Instant? { latest.earliest == Self.never ? nil : Instant(nanoseconds: latest.earliest) }

  /// Whether the earliest deadline in the table was reached.
  func isDue(at now: Instant) -> Bool {
    deadlines.earliest <= now.nanoseconds && deadlines.earliest != Self.never
  }

  /// Sets the deadline of a timer; nil for none.
  ///
  /// - Parameter latest: time at which the node wakes up for it; nil for the deadline itself.
  mutating func set(_ timer: Timer, _ deadline: Instant?, latest: Instant? = nil) {
    deadlines.set(timer, deadline)
    self.latest.set(timer, latest ?? deadline)
  }

  mutating func removeAll() { self = TimerTable() }
}
