import BitchatWire
import Crypto

/// Marks of the user on a peer, contacts with it, and data for the time when it is not in range.
public struct PeerMarks: Hashable, Sendable {
  /// Messages and files between the peer and this node.
  public struct Contacts: OptionSet, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The peer has sent a public message or file.
    public static let wrotePublicly = Contacts(rawValue: 1)
    /// The peer has sent a message or file to this node alone.
    public static let wrotePrivately = Contacts(rawValue: 2)
    /// The user has sent a message or file to the peer.
    public static let wasWrittenTo = Contacts(rawValue: 4)
    public static let all: Contacts = [.wrotePublicly, .wrotePrivately, .wasWrittenTo]
  }

  /// Importance of storing a peer. At the limit, peers with the lowest rank are evicted first.
  public enum Rank: Int, Comparable, Sendable {
    /// Caused by an unauthenticated sender, who may use any number of identities.
    case wrotePublicly
    /// Caused by the peer in a session with this node.
    case wrotePrivately
    case wasWrittenTo
    /// The user has marked the peer.
    case chosen

    public static func < (left: Rank, right: Rank) -> Bool { left.rawValue < right.rawValue }
  }

  /// Maximum number of nicknames in `nicknameHistory`.
  public static let nicknameHistoryLimit = 8

  public var peer: PeerID
  /// Last nickname, up to 255 bytes of UTF-8.
  public var nickname: String
  public var noiseKey: X25519.PublicKey?
  public var isFavourite = false
  public var isBlocked = false
  public var isVerified = false
  /// Whether the peer has this node as favourite.
  public var isFavouriteOfPeer = false
  /// Whether the peer has not yet acknowledged the last favourite notice.
  public var isNoticeOwed = false
  public var contacts: Contacts = []
  /// Nickname of the peer when it was verified, up to 255 bytes of UTF-8; empty if it is not verified, or had none.
  public var verifiedName = ""
  /// Nicknames that the peer has used since it became a favourite or was verified, oldest first. Nicknames that look
  /// the same are listed once.
  public var nicknameHistory: [String] = []
  /// Key of the peer for the uplink, as text of at most 255 bytes; empty if the peer has stated none.
  public var uplinkKey = ""
  /// Time of the peer's latest favourite notice, in milliseconds since 1970; 0 if it is unknown. It is stored only for
  /// a peer with an uplink key, because older notices can arrive only over the uplink.
  public var noticedAt: UInt64 = 0
  /// Time of the last contact, in milliseconds since 1970.
  public var seenAt: UInt64

  public init(
    peer: PeerID, nickname: String = "", noiseKey: X25519.PublicKey? = nil, isFavourite: Bool = false,
    isBlocked: Bool = false, isVerified: Bool = false, isFavouriteOfPeer: Bool = false, contacts: Contacts = [],
    verifiedName: String = "", nicknameHistory: [String] = [], seenAt: UInt64 = 0
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
    self.nicknameHistory = nicknameHistory
    self.seenAt = seenAt
  }

  /// Whether the user has marked the peer; it is then evicted last.
  public var isChosen: Bool { isFavourite || isBlocked || isVerified }
  /// Whether the user trusts the peer.
  public var isTrusted: Bool { isFavourite || isVerified }

  /// Whether the peer has marks to be stored.
  public var isMarked: Bool { isChosen || isFavouriteOfPeer || isNoticeOwed || !contacts.isEmpty }

  public var rank: Rank {
    if isChosen { return .chosen }
    if contacts.contains(.wasWrittenTo) { return .wasWrittenTo }
    return isFavouriteOfPeer || contacts.contains(.wrotePrivately) ? .wrotePrivately : .wrotePublicly
  }
}
