import Bytes
import Common
import Crypto
import Testing

@testable import Thali

/// Sample keys and times: a sender of announcements, and receivers that know it.
struct People {
  static let now = WallTime(milliseconds: 1_780_000_000_000)

  /// A key that is the same in every run.
  static func key(_ number: UInt64) throws -> Secp256k1.PrivateKey {
    var random = SeededRandom(seed: number)
    return try Secp256k1.PrivateKey(randomFrom: &random)
  }

  /// The `KnownPeers` of the owner of `own` with these peers, and their numbers in the given order.
  static func known(
    _ own: Secp256k1.PrivateKey, _ peers: [Secp256k1.PrivateKey]
  ) throws -> (known: KnownPeers, ids: [PeerID]) {
    var known = KnownPeers(own: own)
    var ids: [PeerID] = []
    for peer in peers { ids.append(try known.add(peer.publicKey)) }
    return (known, ids)
  }

  /// The sender has key 1. The receivers have the keys from 2 on, and know the sender.
  let sender: KnownPeers
  let recipients: [PeerID]
  let receivers: [KnownPeers]
  let stranger: KnownPeers

  init(receivers count: Int = 3) throws {
    let sender = try Self.key(1)
    let others = try (0..<count).map { try Self.key(UInt64(2 + $0)) }
    (self.sender, recipients) = try Self.known(sender, others)
    receivers = try others.map { try Self.known($0, [sender]).known }
    stranger = try Self.known(try Self.key(1000), [sender]).known
  }
}
