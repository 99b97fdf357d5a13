import Bitchat
import Crypto

/// What the user has said of a peer, whether there were messages, and what is known of the peer when it is not near.
public struct PeerMarks: Hashable, Sendable {
  /// Messages and files between the peer and this node.
  public struct Contacts: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The peer has sent something to everybody.
    public static let wrotePublicly = Contacts(rawValue: 1)
    /// The peer has sent something to this node alone.
    public static let wrotePrivately = Contacts(rawValue: 2)
    /// The user has sent something to the peer.
    public static let wasWrittenTo = Contacts(rawValue: 4)
    public static let all: Contacts = [.wrotePublicly, .wrotePrivately, .wasWrittenTo]
  }

  /// How much it matters that a peer stays known. Where there are too many, the lowest go first.
  public enum Rank: Int, Comparable, Sendable {
    /// Anybody can cause it, with any number of identities.
    case wrotePublicly
    /// The peer has caused it in a session with this node.
    case wrotePrivately
    case wasWrittenTo
    /// The user has said something of the peer.
    case chosen

    public static func < (left: Rank, right: Rank) -> Bool { left.rawValue < right.rawValue }
  }

  /// The most names that are kept in `heldNames`.
  public static let mostHeldNames = 8

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
  public var contacts: Contacts = []
  /// The nickname that the peer had when it was verified: up to 255 bytes of UTF-8; empty where it is not verified, or had none.
  public var verifiedName = ""
  /// The nicknames that the peer has had since it became a favourite or was verified, oldest first, without those that differ
  /// only in how they are written.
  public var heldNames: [String] = []
  /// Milliseconds since 1970.
  public var seenAt: UInt64

  public init(
    peer: PeerID, nickname: String = "", noiseKey: X25519.PublicKey? = nil, isFavourite: Bool = false,
    isBlocked: Bool = false, isVerified: Bool = false, isFavouriteOfPeer: Bool = false, contacts: Contacts = [],
    verifiedName: String = "", heldNames: [String] = [], seenAt: UInt64 = 0
  ) {
    self.peer = peer
    self.nickname = nickname
    self.noiseKey = noiseKey
    self.isFavourite = isFavourite
    self.isBlocked = isBlocked
    self.isVerified = isVerified
    self.isFavouriteOfPeer = isFavouriteOfPeer
    self.contacts = contacts
    self.verifiedName = verifiedName
    self.heldNames = heldNames
    self.seenAt = seenAt
  }

  /// Whether the user has said something of the peer: such a peer goes last where there are too many.
  public var isChosen: Bool { isFavourite || isBlocked || isVerified }
  /// Whether the user trusts the peer.
  public var isTrusted: Bool { isFavourite || isVerified }

  /// Whether there is something to remember of the peer: of another one nothing is kept.
  public var isMarked: Bool { isChosen || isFavouriteOfPeer || isNoticeOwed || !contacts.isEmpty }

  public var rank: Rank {
    if isChosen { return .chosen }
    if contacts.contains(.wasWrittenTo) { return .wasWrittenTo }
    return isFavouriteOfPeer || contacts.contains(.wrotePrivately) ? .wrotePrivately : .wrotePublicly
  }
}
