import Bitchat
import Crypto

/// Change of the persistent data.
public enum MeshChange: Hashable, Sendable {
  /// Nickname of this node, up to 255 bytes of UTF-8.
  case nickname(String)
  /// A new pin, or a new contact with its peer. Beyond the limit, the pins of peers with the oldest contact are
  /// dropped.
  ///
  /// - Parameter isProven: whether the peer has proven the key inside Noise.
  case pin(PeerID, Ed25519.PublicKey, isProven: Bool = false)
  /// Changed marks of a peer. If none is set, the record is removed.
  case peer(PeerMarks)
  /// Removes pin and marks of a peer. Messages stay.
  case forget(PeerID)
  case outgoing(OutgoingMessage)
  /// An outgoing message was delivered or has failed.
  case settled(UInt32)
  case gossip(GossipArchive.Item)
  /// A message is new, or its state has changed.
  case message(MeshMessage)
  /// An envelope carried for another peer.
  case carried(CarriedEnvelope)
  case carriedNoMore(CourierID)
  /// A number was assigned to something that is not stored.
  case number(UInt32)
  /// A file whose content is on disk already.
  case file(MeshFile)
  /// A file was removed; its content is erased.
  case fileGone(UInt32)
  /// A file must not be accepted again.
  case deleted(DeletedFile)

  /// Whether the change is a gossip packet, for which no caller awaits the commit.
  public var isGossip: Bool { if case .gossip = self { true } else { false } }

  public init(_ keepsake: MeshEngine.Keepsake) {
    self =
      switch keepsake {
      case .pin(let peer, let key, let isProven): .pin(peer, key, isProven: isProven)
      case .gossip(let item): .gossip(item)
      case .outgoing(let message): .outgoing(message)
      case .settled(let number): .settled(number)
      case .carried(let envelope): .carried(envelope)
      case .carriedNoMore(let id): .carriedNoMore(id)
      }
  }
}
