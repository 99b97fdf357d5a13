import Common

/// Index of this node's envelopes at couriers. A courier does not report a refusal, so no envelope is offered to it
/// twice.
///
/// An entry ends when the envelope expires, or when the courier itself brings the answer. An answer that arrives
/// another way removes nothing from the courier's store.
struct CourierBooks: Sendable {
  private struct Entry: Sendable {
    let message: MessageID
    /// Milliseconds since 1970.
    let expiry: UInt64
  }

  private var entries: [PeerID: [Entry]] = [:]

  /// Number of couriers with entries.
  var count: Int { entries.count }

  /// Number of this node's envelopes at a courier that have not expired.
  func envelopes(with courier: PeerID, at time: UInt64) -> Int {
    entries[courier]?.count { $0.expiry > time } ?? 0
  }

  mutating func give(_ message: MessageID, to courier: PeerID, until expiry: UInt64) {
    entries[courier, default: []].append(Entry(message: message, expiry: expiry))
  }

  /// Removes the entry of a message whose answer the courier has brought.
  mutating func answered(_ message: MessageID, by courier: PeerID) {
    entries[courier]?.removeAll { $0.message == message }
    if entries[courier]?.isEmpty == true { entries[courier] = nil }
  }

  /// Removes expired entries.
  mutating func age(at time: UInt64) {
    for courier in entries.keys {
      entries[courier]?.removeAll { $0.expiry <= time }
      if entries[courier]?.isEmpty == true { entries[courier] = nil }
    }
  }
}
