import Common
import Crypto

/// What an earlier run has kept. Undelivered messages come back with `restore(_:at:time:)`, and favourites, blocks and verified
/// peers as the events that made them so.
extension MeshEngine {
  /// Restores the pinned signing key of a peer.
  ///
  /// - Parameter isProven: whether the peer has proven it.
  public mutating func restorePin(
    of peer: PeerID, _ signingKey: Ed25519.PublicKey, isProven: Bool, at now: Instant
  ) {
    table.restorePin(peer, signingKey, isProven: isProven, at: now)
  }

  /// A peer has this Noise key: what is sealed for it while it is away is sealed with that.
  public mutating func restoreNoiseKey(of peer: PeerID, _ key: X25519.PublicKey) {
    if PeerID(noiseKey: key) == peer { table.restoreNoiseKey(peer, key) }
  }

  /// A public packet that neighbours may ask for.
  public mutating func restore(_ item: GossipArchive.Item) { _ = archive.keep(item) }

  /// A private message that the service has: it is not told again.
  public mutating func restoreReceived(_ message: MessageID, from peer: PeerID, at now: Instant) {
    received.insert(ReceivedMessage(sender: peer, id: message), at: now)
  }
}
