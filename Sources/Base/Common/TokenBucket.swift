/// A limit of so many a second: tokens that come back evenly, and are never more than a second's.
public struct TokenBucket: Sendable {
  private let capacity: Double
  private let perSecond: Double
  private var tokens: Double
  private var filledAt: Instant?

  /// - Parameters:
  ///   - count: how many are allowed within `period`, and at one moment.
  public init(_ count: Int, each period: Duration = .seconds(1)) {
    capacity = Double(max(0, count))
    tokens = capacity
    perSecond = capacity / (Double(max(1, period.wholeNanoseconds)) / 1e9)
  }

  /// Takes so many tokens, if those and `reserve` are there.
  public mutating func take(_ count: Double = 1, at now: Instant, reserve: Double = 0) -> Bool {
    if let filledAt {
      // A `Duration` has 128 bits, which take longer than all else here.
      let elapsed = Double(max(0, now.nanoseconds.subtractingReportingOverflow(filledAt.nanoseconds).0)) / 1e9
      tokens = min(capacity, tokens + elapsed * perSecond)
    }
    filledAt = now
    guard tokens >= count + reserve else { return false }
    tokens -= count
    return true
  }

  /// Takes tokens whether they are there or not: those that are missing have to come back before there are others.
  public mutating func spend(_ count: Double) { tokens -= count }

  /// Gives a token back that was taken for nothing.
  public mutating func giveBack() { tokens = min(capacity, tokens + 1) }
}
