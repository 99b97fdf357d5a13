/// The memory that a server uses for its sessions, in octets: in total and for each user.
///
/// It counts waiting output, incomplete input, requests that wait or are in the store, answers and the memory reserved
/// for them, and pushed blobs. A blob that several sessions share counts once, and not for any user.
struct MemoryAccount: Sendable {
  private struct SharedBlob {
    let octets: Int
    var sessions: Int
  }

  private(set) var total = 0
  /// Octets of requests, which are a part of the total.
  private(set) var requests = 0
  /// Octets reserved for answers of the store, which are a part of the total.
  private(set) var reserved = 0
  private var users: [UserKey: Int] = [:]
  private var blobs: [Sum: SharedBlob] = [:]

  /// The octets of all sessions and requests of a user.
  func octets(of user: UserKey) -> Int { users[user] ?? 0 }

  /// Adds octets; a negative number subtracts them.
  ///
  /// - Parameter user: the user of the session; nil before login.
  mutating func add(_ octets: Int, of user: UserKey?) {
    total += octets
    guard let user, octets != 0 else { return }
    let sum = (users[user] ?? 0) + octets
    users[user] = sum == 0 ? nil : sum
  }

  mutating func addRequest(_ octets: Int, of user: UserKey?) {
    requests += octets
    add(octets, of: user)
  }

  mutating func reserve(_ octets: Int, of user: UserKey?) {
    reserved += octets
    add(octets, of: user)
  }

  /// Counts a pushed blob that is waiting in a session's outbox.
  mutating func hold(_ blob: Blob) {
    if blobs[blob.sum] != nil {
      blobs[blob.sum]?.sessions += 1
    } else {
      blobs[blob.sum] = SharedBlob(octets: blob.bytes.count, sessions: 1)
      total += blob.bytes.count
    }
  }

  /// Counts that a session has sealed or dropped a pushed blob that was waiting.
  mutating func release(_ sum: Sum) {
    guard var blob = blobs[sum] else { return }
    blob.sessions -= 1
    if blob.sessions == 0 { total -= blob.octets }
    blobs[sum] = blob.sessions == 0 ? nil : blob
  }
}
