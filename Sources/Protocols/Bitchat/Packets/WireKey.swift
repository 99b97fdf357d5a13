import Crypto

/// The key of a packet as it lies on the wire: header without time to live, IDs, route and payload section.
///
/// Copies that came over other ways have the same key. A copy that a relay compressed anew, or marked as an answer to a
/// request for sync, has another one: `PacketID` tells those. The signature is no part of it, so a key may be remembered only
/// after the signature held.
public struct WireKey: Hashable, Sendable {
  let version: UInt8
  let type: UInt8
  let hash: KeyedHash.Value

  public func hash(into hasher: inout Hasher) {
    // Strangers cannot aim at it, so half of it is enough for a table.
    hasher.combine(hash.low)
  }
}
