import Crypto

/// Key of a received packet: header without TTL, IDs, route and payload section.
///
/// Copies over other paths have the same key. A copy that a relay recompressed, or marked as sync answer, has a
/// different key; `PacketID` recognises it. The key does not cover the signature, so store it only after the signature
/// was verified.
public struct WireKey: Hashable, Sendable {
  let version: UInt8
  let type: UInt8
  let hash: KeyedHash.Value

  public func hash(into hasher: inout Hasher) {
    // The keyed hash cannot be targeted by attackers, so half of it is enough for a hash table.
    hasher.combine(hash.low)
  }
}
