import BitchatWire
import Common

/// Neighbours whose announces agree with this node's clock.
///
/// Two are enough if they have different IDs and links of different origins: one radio can announce any number of
/// identities, and repeat the announces of others.
struct ClockWitnesses: Sendable {
  /// Number of neighbours that have to agree.
  private static let enough = 2
  /// Maximum number of peers whose confirmation of the clock is stored.
  private static let limit = 16

  private struct Witness: Hashable, Sendable {
    let peer: PeerID
    let origin: DeviceOrigin
  }

  private var agreeing: Set<Witness> = []

  var count: Int { agreeing.count }

  /// Whether enough neighbours agree: two with different IDs and origins.
  var areEnough: Bool {
    guard agreeing.count >= Self.enough else { return false }
    // Compares each of at most sixteen witnesses with each other one.
    return agreeing.contains { one in
      agreeing.contains { $0.peer != one.peer && $0.origin != one.origin }
    }
  }

  /// Handles an announce that arrived directly from a neighbour.
  ///
  /// - Parameter agrees: whether the time of the announce agrees with this node's clock.
  mutating func note(_ peer: PeerID, from origin: DeviceOrigin, agrees: Bool) {
    guard agrees else {
      agreeing = agreeing.filter { $0.peer != peer }
      return
    }
    let witness = Witness(peer: peer, origin: origin)
    guard agreeing.count >= Self.limit, !agreeing.contains(witness) else {
      agreeing.insert(witness)
      return
    }
    // Identities of one origin do not evict those of others.
    let counts = agreeing.reduce(into: [DeviceOrigin: Int]()) { $0[$1.origin, default: 0] += 1 }
    guard let busiest = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) }), busiest.value > 1,
      let first = agreeing.filter({ $0.origin == busiest.key }).min(by: { $0.peer < $1.peer })
    else { return }
    agreeing.remove(first)
    agreeing.insert(witness)
  }

  /// Forgets all witnesses: this machine's clock was set.
  mutating func forget() { agreeing = [] }
}
