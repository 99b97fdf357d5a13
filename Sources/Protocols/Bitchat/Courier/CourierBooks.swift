import Common

/// What this node has given to couriers, as far as they still have it: a courier that refuses an envelope does not say so, and none is
/// offered to it twice.
///
/// An envelope counts until its life is over, or until its courier itself brings the answer: that the letter arrived some other way
/// takes nothing out of a courier's bag.
struct CourierBooks: Sendable {
  private struct Entry: Sendable {
    let message: MessageID
    /// Milliseconds since 1970.
    let expiry: UInt64
  }

  private var entries: [PeerID: [Entry]] = [:]

  /// How many couriers something is known of.
  var count: Int { entries.count }

  /// How many envelopes of this node a courier has.
  func envelopes(with courier: PeerID, at time: UInt64) -> Int {
    entries[courier]?.count { $0.expiry > time } ?? 0
  }

  mutating func give(_ message: MessageID, to courier: PeerID, until expiry: UInt64) {
    entries[courier, default: []].append(Entry(message: message, expiry: expiry))
  }

  /// A courier has brought what answers a letter.
  mutating func answered(_ message: MessageID, by courier: PeerID) {
    entries[courier]?.removeAll { $0.message == message }
    if entries[courier]?.isEmpty == true { entries[courier] = nil }
  }

  /// Forgets what nobody carries any more.
  mutating func age(at time: UInt64) {
    for courier in entries.keys {
      entries[courier]?.removeAll { $0.expiry <= time }
      if entries[courier]?.isEmpty == true { entries[courier] = nil }
    }
  }
}
