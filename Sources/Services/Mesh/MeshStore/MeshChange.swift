import Bitchat
import Crypto

/// Something that the next run has to know.
public enum MeshChange: Hashable, Sendable {
  /// What this node calls itself: up to 255 bytes of UTF-8.
  case nickname(String)
  /// A pin is new, or its peer was met again. Where there are too many, those of peers not met for longest go first.
  ///
  /// - Parameter isProven: whether the peer has proven the key inside Noise.
  case pin(PeerID, Ed25519.PublicKey, isProven: Bool = false)
  /// The marks of a peer are others. Where none is set any more, nothing of them is kept.
  case peer(PeerMarks)
  /// Pin and marks of a peer are gone. Messages stay.
  case forget(PeerID)
  case outgoing(OutgoingMessage)
  /// An outgoing message is delivered, or given up.
  case settled(UInt32)
  case gossip(GossipArchive.Item)
  /// A message is new, or its state is another one.
  case message(MeshMessage)
  /// An envelope that the node carries for somebody else.
  case carried(CarriedEnvelope)
  case carriedNoMore(CourierID)
  /// A number was given to something that is not kept itself.
  case number(UInt32)
  /// A file whose content is on the disk already.
  case file(MeshFile)
  /// A file is not wanted any more: its content goes.
  case fileGone(UInt32)
  /// A file is not to be taken once more.
  case deleted(DeletedFile)

  /// Whether it is a gossip packet, of which no caller is told that it is stored.
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
