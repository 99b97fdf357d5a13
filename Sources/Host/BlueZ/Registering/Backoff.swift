/// How long to wait before the next attempt: half a second, then twice as long each time, up to half a minute; or from and up to
/// other times; where it is urgent, no longer than a moment for the first attempts.
struct Backoff: Sendable {
  private let shortest: Duration
  private let longest: Duration
  private var wait: Duration
  /// Of so many attempts none waits longer than `moment`.
  private var urgency = 0
  private var moment = Duration.zero
  private var failures = 0

  static let shortest = Duration.milliseconds(500)
  static let longest = Duration.seconds(30)

  init(from shortest: Duration = Self.shortest, upTo longest: Duration = Self.longest) {
    self.shortest = shortest
    self.longest = longest
    wait = shortest
  }

  /// The first attempts wait `moment` at most.
  init(upTo moment: Duration, forAttempts urgency: Int) {
    self.init()
    (self.urgency, self.moment) = (urgency, moment)
  }

  /// The wait before the next attempt; the one after it will be longer.
  mutating func next() -> Duration {
    failures += 1
    defer { wait = min(wait * 2, failures < urgency ? moment : longest) }
    return wait
  }

  /// Whether there was no failure yet.
  var isFresh: Bool { failures == 0 }

  mutating func reset() {
    failures = 0
    wait = shortest
  }
}
