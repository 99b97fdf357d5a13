import Common

/// A rate limit for each program: points are refilled over time, and each call costs some. A program that calls
/// continuously cannot occupy the loop.
struct CallBudget: Sendable {
  /// The capacity of a program's budget, in seconds of refill.
  static let burst = 5
  /// Number of bytes of an answer that cost as much as a call.
  static let bytesPerPoint = 4096
  /// Maximum programs with their own budgets; all others share one.
  static let capacity = 1024

  private let perSecond: Int
  private var buckets: [String: TokenBucket] = [:]
  private var others: TokenBucket?

  /// - Parameter perSecond: the refill rate for each program, in points.
  init(perSecond: Int) {
    self.perSecond = max(1, min(perSecond, 1_000_000))
  }

  private var full: TokenBucket { TokenBucket(perSecond * Self.burst, each: .seconds(Self.burst)) }

  /// Takes the points for a call, if the program has them.
  ///
  /// - Returns: false if it does not have enough; nothing is then taken.
  mutating func take(_ points: Int, of sender: String, at now: Instant) -> Bool {
    if buckets[sender] == nil, buckets.count >= Self.capacity { buckets = buckets.filter { !$0.value.isFull(at: now) } }
    let full = full
    if buckets[sender] != nil || buckets.count < Self.capacity {
      return Self.take(points, from: &buckets[sender], or: full, at: now)
    }
    return Self.take(points, from: &others, or: full, at: now)
  }

  private static func take(
    _ points: Int, from bucket: inout TokenBucket?, or full: TokenBucket, at now: Instant
  ) -> Bool {
    var rest = bucket ?? full
    guard rest.take(Double(points), at: now) else { return false }
    bucket = rest
    return true
  }

  /// Takes the points for an answer that was sent to a program. If the program has fewer points, its budget becomes 0.
  mutating func charge(_ points: Int, to sender: String, at now: Instant) {
    if buckets[sender] != nil {
      buckets[sender]?.drain(Double(points), at: now)
    } else {
      var rest = others ?? full
      rest.drain(Double(points), at: now)
      others = rest
    }
  }

  /// The price of a call, in points. A call whose answer may list many items costs more.
  static func price(of message: Message) -> Int {
    switch message.member {
    case "GetManagedObjects", "GetMetrics", "ListHistory", "Watch": 16
    case "GetAll", "Introspect": 4
    default: 1
    }
  }
}
