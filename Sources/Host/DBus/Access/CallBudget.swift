import Common

/// How much each program may ask for: points that come back with time, and that each call takes some of. So no program has the
/// loop for itself, however fast it calls.
struct CallBudget: Sendable {
  /// How many seconds' points a program that was quiet may spend at once.
  static let burst = 5
  /// So many bytes of an answer cost as much as a call.
  static let bytesPerPoint = 4096
  /// The programs that are known at one time; all others have one budget together.
  static let capacity = 1024

  private struct Account {
    /// Billionths of a point that are spent and have not come back.
    var spent: Int64 = 0
    var at: Instant
  }

  private let perSecond: Int64
  private var accounts: [String: Account] = [:]
  private var others: Account?

  /// - Parameter perSecond: the points that come back to each program in a second.
  init(perSecond: Int) {
    self.perSecond = Int64(max(1, min(perSecond, 1_000_000)))
  }

  /// Takes the points of a call, where the program has them.
  ///
  /// - Returns: false where it has not; nothing is taken then.
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

  /// Takes the points of what a program has got already. It never owes more than comes back in five seconds.
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

  /// What of the spent points has not come back yet.
  private func left(of account: Account, at now: Instant) -> Int64 {
    let whole = Int64(Self.burst) * 1_000_000_000
    let passed = min(max(0, account.at.duration(to: now).wholeNanoseconds), whole)
    return max(0, account.spent - passed * perSecond)
  }

  /// The points that a call takes: more where the answer lists many things.
  static func price(of message: Message) -> Int {
    switch message.member {
    case "GetManagedObjects", "Watch": 16
    case "GetAll", "Introspect": 4
    default: 1
    }
  }
}
