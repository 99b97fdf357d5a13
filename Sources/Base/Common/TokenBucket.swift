/// A rate limit: tokens return evenly, up to the capacity.
public struct TokenBucket: Sendable {
  private let capacity: Double
  private let perSecond: Double
  private var tokens: Double
  private var filledAt: Instant?

  /// - Parameters:
  ///   - count: maximum tokens that are taken within `period`, and at one moment.
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

  /// Takes tokens even if they are not available: the deficit must be refilled before `take` succeeds.
  public mutating func spend(_ count: Double) { tokens -= count }

  /// Takes `count` tokens, or all that are available.
  public mutating func drain(_ count: Double, at now: Instant) {
    tokens = available(at: now)
    tokens -= min(count, max(0, tokens))
    filledAt = now
  }

  /// Whether all tokens are available.
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
