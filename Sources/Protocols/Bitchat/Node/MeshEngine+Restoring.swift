import Common
import Crypto

/// Restores the state of an earlier run. Undelivered messages are restored by `restore(_:at:time:)`; favourites, blocks
/// and verified peers by their events.
extension MeshEngine {
  /// Restores the pinned signing key of a peer.
  ///
  /// - Parameter isProven: whether the peer has proven it.
  public mutating func restorePin(
    of peer: PeerID, _ signingKey: Ed25519.PublicKey, isProven: Bool, at now: Instant
  ) {
    table.restorePin(peer, signingKey, isProven: isProven, at: now)
  }

  /// Restores the Noise key of a peer, for messages sealed while the peer is away.
  public mutating func restoreNoiseKey(of peer: PeerID, _ key: X25519.PublicKey) {
    if PeerID(noiseKey: key) == peer { table.restoreNoiseKey(peer, key) }
  }

  /// Restores a public packet for sync.
  public mutating func restore(_ item: GossipArchive.Item) { _ = gossip.store(item) }

  /// Restores the ID of a received private message, so that copies are not reported.
  public mutating func restoreReceived(_ message: MessageID, from peer: PeerID, at now: Instant) {
    received.insert(ReceivedMessage(sender: peer, id: message), at: now)
  }
}
