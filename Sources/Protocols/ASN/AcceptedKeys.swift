import Common

/// The ephemeral keys of the clients whose logins a server accepted, so that a recorded connection cannot be replayed.
///
/// A replay would make the server seal a second acknowledgement under the same key and nonce, and would open a session
/// that nobody can use. The number of keys is limited for each user and in total. At the total, the user with the most
/// keys loses its oldest one, so no user makes the server forget the keys of another. The keys are in memory only.
struct AcceptedKeys: Sendable {
  /// Maximum number of ephemeral keys that are remembered for one user.
  static let perUser = 1024

  private let total: Int
  private var keys: Set<UserKey> = []
  private var users: [UserKey: Fifo<UserKey>] = [:]

  /// - Parameter total: maximum keys of all users.
  init(total: Int = 65_536) { self.total = total }

  var count: Int { keys.count }

  func contains(_ key: UserKey) -> Bool { keys.contains(key) }

  /// Stores the ephemeral key `key` of a client that has logged in as `user`.
  mutating func insert(_ key: UserKey, of user: UserKey) {
    guard keys.insert(key).inserted else { return }
    users[user, default: Fifo()].append(key)
    if users[user]?.count ?? 0 > Self.perUser { removeOldest(of: user) }
    if keys.count > total, let largest = users.max(by: { $0.value.count < $1.value.count }) {
      removeOldest(of: largest.key)
    }
  }

  private mutating func removeOldest(of user: UserKey) {
    if let oldest = users[user]?.popFirst() { keys.remove(oldest) }
    if users[user]?.isEmpty == true { users[user] = nil }
  }
}
