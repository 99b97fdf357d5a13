import Common
import Crypto

/// A private message of this node, until the peer has it. A long text is several messages on the air.
public struct OutgoingMessage: Hashable, Sendable {
  /// A part of it, as it goes on the air: the same ID each time, so that the peer shows it once.
  public struct Piece: Hashable, Sendable {
    public let id: MessageID
    public let text: String
    public internal(set) var isDelivered = false
    public internal(set) var isRead = false

    public init(id: MessageID, text: String, isDelivered: Bool = false, isRead: Bool = false) {
      self.id = id
      self.text = text
      self.isDelivered = isDelivered
      self.isRead = isRead
    }
  }

  /// What the service calls it.
  public let number: UInt32
  public let peer: PeerID
  public internal(set) var pieces: [Piece]
  /// Milliseconds since 1970, by this node's clock.
  public internal(set) var createdAt: UInt64
  /// Whether that clock was known to be right. If it was not, `createdAt` may be wrong by years.
  public internal(set) var isDated: Bool
  /// How often it was sent.
  public internal(set) var tries: Int
  /// The peer's Noise key, once it was sealed for a courier; nil where it is to be looked up.
  public internal(set) var noiseKey: X25519.PublicKey?
  /// The peers that carry it.
  public internal(set) var couriers: [PeerID]

  public init(
    number: UInt32, peer: PeerID, pieces: [Piece], createdAt: UInt64, tries: Int = 0,
    noiseKey: X25519.PublicKey? = nil, couriers: [PeerID] = [], isDated: Bool = true
  ) {
    self.number = number
    self.peer = peer
    self.pieces = pieces
    self.createdAt = createdAt
    self.tries = tries
    self.noiseKey = noiseKey
    self.couriers = couriers
    self.isDated = isDated
  }

  var state: MessageState {
    if pieces.allSatisfy(\.isRead) { return .read }
    if pieces.allSatisfy(\.isDelivered) { return .delivered }
    return tries > 0 || !couriers.isEmpty ? .sent : .waiting
  }
}
