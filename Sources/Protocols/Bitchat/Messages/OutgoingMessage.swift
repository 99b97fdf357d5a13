import BitchatWire
import Common
import Crypto

/// Undelivered private message of this node. A long text is sent as several messages.
public struct OutgoingMessage: Hashable, Sendable {
  /// Part of the message. Its ID is constant, so that the peer shows it once.
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

  /// Unique number, chosen by the service.
  public let number: UInt32
  public let peer: PeerID
  public internal(set) var pieces: [Piece]
  /// Milliseconds since 1970, by this node's clock.
  public internal(set) var createdAt: UInt64
  /// Whether the clock was trusted when the message was made. If not, `createdAt` may be wrong by years.
  public internal(set) var isDated: Bool
  /// Number of attempts to send the message.
  public internal(set) var tries: Int
  /// The peer's Noise key, stored when the message was sealed for a courier; nil if it must be looked up.
  public internal(set) var noiseKey: X25519.PublicKey?
  /// Couriers to which an envelope with the message was given.
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

/// State of a private message of this node.
public enum MessageState: String, Hashable, Sendable {
  /// The message waits for a session or for the peer.
  case waiting
  case sent
  case delivered
  case read
  /// The message was not delivered within a day or in eight attempts.
  case failed
}
