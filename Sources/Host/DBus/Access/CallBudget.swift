import Common

/// A rate limit for each program: points are refilled over time, and each call costs some. A program that calls continuously cannot occupy
/// the loop.
struct CallBudget: Sendable {
  /// The capacity of a program's budget, in seconds of refill.
  static let burst = 5
  /// Number of bytes of an answer that cost as much as a call.
  static let bytesPerPoint = 4096
  /// Maximum programs with their own budgets; all others share one.
  static let capacity = 1024

  private struct Account {
    /// Spent points that are not refilled yet, in billionths.
    var spent: Int64 = 0
    var at: Instant
  }

  private let perSecond: Int64
  private var accounts: [String: Account] = [:]
  private var others: Account?

  /// - Parameter perSecond: the refill rate for each program, in points.
  init(perSecond: Int) {
    self.perSecond = Int64(max(1, min(perSecond, 1_000_000)))
  }

  /// Takes the points for a call, if the program has them.
  ///
  /// - Returns: false if it does not have enough; nothing is then taken.
  mutating func take(_ points: Int, of sender: String, at now: Instant) -> Bool {
    if accounts[sender] == nil, accounts.count >= Self.capacity {
      accounts = accounts.filter { left(of: $0.value, at: now) > 0 }
    }
    if accounts[sender] != nil || accounts.count < Self.capacity {
      return take(points, from: &accounts[sender], at: now)
    }
    return take(points, from: &others, at: now)
  }

  private func take(_ points: Int, from account: inout Account?, at now: Instant) -> Bool {
    let spent = account.map { left(of: $0, at: now) } ?? 0
    let price = Int64(points) * 1_000_000_000
    guard spent + price <= perSecond * Int64(Self.burst) * 1_000_000_000 else { return false }
    account = Account(spent: spent + price, at: now)
    return true
  }

  /// Takes the points for an answer that a program has received. The debt is limited to five seconds of refill.
  mutating func charge(_ points: Int, to sender: String, at now: Instant) {
    if accounts[sender] != nil {
      charge(points, to: &accounts[sender], at: now)
    } else {
      charge(points, to: &others, at: now)
    }
  }

  private func charge(_ points: Int, to account: inout Account?, at now: Instant) {
    let spent = (account.map { left(of: $0, at: now) } ?? 0) + Int64(points) * 1_000_000_000
    account = Account(spent: min(spent, perSecond * Int64(Self.burst) * 1_000_000_000), at: now)
  }

  /// Spent points that are not refilled yet.
  private func left(of account: Account, at now: Instant) -> Int64 {
    let whole = Int64(Self.burst) * 1_000_000_000
    let passed = min(max(0, account.at.duration(to: now).wholeNanoseconds), whole)
    return max(0, account.spent - passed * perSecond)
  }

  /// The price of a call in points: higher if the answer may list many items.
  static func price(of message: Message) -> Int {
    switch message.member {
    case "GetManagedObjects", "Watch": 16
    case "GetAll", "Introspect": 4
    default: 1
    }
  }
}
