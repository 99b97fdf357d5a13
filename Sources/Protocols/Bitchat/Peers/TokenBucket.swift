import Common

/// A limit of so many a second: tokens that come back evenly, and are never more than a second's.
struct TokenBucket: Sendable {
  private let capacity: Double
  private let perSecond: Double
  private var tokens: Double
  private var filledAt: Instant?

  /// - Parameters:
  ///   - count: how many are allowed within `period`, and at one moment.
  init(_ count: Int, each period: Duration = .seconds(1)) {
    capacity = Double(max(0, count))
    tokens = capacity
    perSecond = capacity / (Double(max(1, period.wholeNanoseconds)) / 1e9)
  }

  /// Takes a token, if more than `reserve` are there.
  mutating func take(at now: Instant, reserve: Double = 0) -> Bool {
    if let filledAt {
      let elapsed = Double(max(0, filledAt.duration(to: now).wholeNanoseconds)) / 1e9
      tokens = min(capacity, tokens + elapsed * perSecond)
    }
    filledAt = now
    guard tokens >= 1 + reserve else { return false }
    tokens -= 1
    return true
  }

  /// Gives a token back that was taken for nothing.
  mutating func giveBack() { tokens = min(capacity, tokens + 1) }
}
