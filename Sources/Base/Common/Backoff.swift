/// The pause before the next attempt of a failing operation. It starts at 0.5 s and doubles up to 30 s, unless other
/// limits are given. Urgent operations have a short maximum pause for the first attempts.
public struct Backoff: Sendable {
  private let shortest: Duration
  private let longest: Duration
  private var wait: Duration
  /// Number of first attempts with pauses of at most `moment`.
  private var urgency = 0
  private var moment = Duration.zero
  private var failures = 0

  public static let shortest = Duration.milliseconds(500)
  public static let longest = Duration.seconds(30)

  public init(from shortest: Duration = Self.shortest, upTo longest: Duration = Self.longest) {
    self.shortest = shortest
    self.longest = longest
    wait = shortest
  }

  /// Limits the pauses of the first `urgency` attempts to `moment`.
  public init(upTo moment: Duration, forAttempts urgency: Int) {
    self.init()
    (self.urgency, self.moment) = (urgency, moment)
  }

  /// The pause before the next attempt; increases the one after it.
  public mutating func next() -> Duration {
    failures += 1
    defer { wait = min(wait * 2, failures < urgency ? moment : longest) }
    return wait
  }

  /// Whether no attempt has failed.
  public var isFresh: Bool { failures == 0 }

  public mutating func reset() {
    failures = 0
    wait = shortest
  }
}
