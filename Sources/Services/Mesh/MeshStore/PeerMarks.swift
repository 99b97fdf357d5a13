import Bitchat
import Crypto

/// What the user has said of a peer, and what is known of it when it is not near.
public struct PeerMarks: Hashable, Sendable {
  public var peer: PeerID
  /// What it called itself last: up to 255 bytes of UTF-8.
  public var nickname: String
  public var noiseKey: X25519.PublicKey?
  public var isFavourite = false
  public var isBlocked = false
  public var isVerified = false
  /// Whether the peer has this node as a favourite.
  public var isFavouriteOfPeer = false
  /// Whether the peer has not acknowledged yet that it is a favourite, or no longer.
  public var isNoticeOwed = false
  /// Milliseconds since 1970.
  public var seenAt: UInt64

  public init(
    peer: PeerID, nickname: String = "", noiseKey: X25519.PublicKey? = nil, isFavourite: Bool = false,
    isBlocked: Bool = false, isVerified: Bool = false, isFavouriteOfPeer: Bool = false, seenAt: UInt64 = 0
  ) {
    self.peer = peer
    self.nickname = nickname
    self.noiseKey = noiseKey
    self.isFavourite = isFavourite
    self.isBlocked = isBlocked
    self.isVerified = isVerified
    self.isFavouriteOfPeer = isFavouriteOfPeer
    self.seenAt = seenAt
  }

  /// Whether the user has said something of the peer: such a peer goes last where there are too many.
  public var isChosen: Bool { isFavourite || isBlocked || isVerified }

  /// Whether there is something to remember of the peer: of another one nothing is kept.
  public var isMarked: Bool { isChosen || isFavouriteOfPeer || isNoticeOwed }
}
