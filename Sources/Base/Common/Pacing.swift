/// A rate limit: tokens return evenly, up to the capacity.
public struct TokenBucket: Sendable {
  private let capacity: Double
  private let perSecond: Double
  private var tokens: Double
  private var filledAt: Instant?

  /// - Parameters:
  ///   - count: maximum tokens that are taken within `period`, and at one moment.
  ///   - period: time in which `count` tokens return.
  public init(_ count: Int, each period: Duration = .seconds(1)) {
    capacity = Double(max(0, count))
    tokens = capacity
    perSecond = capacity / (Double(max(1, period.wholeNanoseconds)) / 1e9)
  }

  /// Takes `count` tokens if `count` and `reserve` are available.
  public mutating func take(_ count: Double = 1, at now: Instant, reserve: Double = 0) -> Bool {
    tokens = available(at: now)
    filledAt = now
    guard tokens >= count + reserve else { return false }
    tokens -= count
    return true
  }

  /// Takes tokens even if they are not available. The deficit must be refilled before `take` succeeds again.
  public mutating func spend(_ count: Double) { tokens -= count }

  /// Takes `count` tokens, or all that are available.
  public mutating func drain(_ count: Double, at now: Instant) {
    tokens = available(at: now)
    tokens -= min(count, max(0, tokens))
    filledAt = now
  }

  /// Whether the bucket is full, so that its owner may forget it.
  public func isFull(at now: Instant) -> Bool { available(at: now) >= capacity }

  private func available(at now: Instant) -> Double {
    guard let filledAt else { return tokens }
    // Arithmetic with the 128 bits of a `Duration` would take longer than everything else here.
    let elapsed = Double(max(0, now.nanoseconds.subtractingReportingOverflow(filledAt.nanoseconds).0)) / 1e9
    return min(capacity, tokens + elapsed * perSecond)
  }

  /// Returns one token that was not used.
  public mutating func giveBack() { tokens = min(capacity, tokens + 1) }
}

/// The pause before the next attempt of a failing operation. It starts at 0.5 s and doubles up to 30 s, unless other
/// limits are given. Urgent operations have a short maximum pause for the first attempts.
public struct Backoff: Sendable {
  private let shortest: Duration
  private let longest: Duration
  private var wait: Duration
  /// Number of first attempts whose pauses are at most `moment`.
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

  /// Returns the pause after a number of consecutive failures, for an owner that counts them. Zero counts as one.
  public func pause(afterFailures count: Int) -> Duration {
    var pause = min(shortest, longest)
    for _ in 1..<max(1, count) {
      guard pause > .zero, pause < longest else { break }
      pause = min(pause * 2, longest)
    }
    return pause
  }

  /// The pause after another failure, for an owner that stores the previous pause; zero if there was none.
  public func pause(after previous: Duration) -> Duration {
    previous == .zero ? shortest : min(previous * 2, longest)
  }

  /// Whether no attempt has failed since the last reset.
  public var isFresh: Bool { failures == 0 }

  public mutating func reset() {
    failures = 0
    wait = shortest
  }
}
