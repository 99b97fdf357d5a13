import Common
import DBus
import MeshNaming

/// Peer according to the properties of its D-Bus object.
public struct MeshPeerView: Sendable, Equatable {
  /// Peer ID: 16 lower-case hexadecimal digits.
  public var id: String
  /// Nickname as announced. People are shown ``MeshNameIndex/name(of:)``.
  public var nickname = ""
  /// Nickname of the peer when it was verified; empty if it is not verified, or had none.
  public var verifiedName = ""
  /// Nicknames that a favourite or verified peer has had since then.
  public var nicknameHistory: [String] = []
  /// Fingerprint of the peer's Noise key: 64 hexadecimal digits; empty if unknown.
  public var fingerprint = ""
  /// Whether this node has a link with the peer.
  public var isDirect = false
  /// Number of hops: 1 for a neighbour; 0 if the peer is not in range.
  public var hops = 0
  /// Signal strength in dBm; nil if unknown.
  public var rssi: Int?
  /// Time of the last contact, in milliseconds since 1970.
  public var lastSeen: UInt64 = 0
  public var isVerified = false
  public var isFavourite = false
  /// Whether the peer has this node as favourite.
  public var isFavouriteOfPeer = false
  public var isBlocked = false
  public var hasSession = false
  /// Reason why packets or files of the peer are rejected, in a sentence; otherwise empty.
  public var trouble = ""

  public init(id: String) {
    self.id = id
  }

  /// - Parameter properties: properties of `MeshPeer1`. Nil without a peer ID; other missing properties have defaults.
  public init?(_ properties: [String: DBusValue]) {
    guard let id = properties["PeerId"]?.asString, !id.isEmpty else { return nil }
    func flag(_ name: String) -> Bool { properties[name]?.asBool ?? false }
    self.id = id
    nickname = properties["Nickname"]?.asString ?? ""
    verifiedName = properties["VerifiedName"]?.asString ?? ""
    nicknameHistory = properties["NicknameHistory"]?.asStrings ?? []
    fingerprint = properties["Fingerprint"]?.asString ?? ""
    isDirect = flag("Direct")
    hops = properties["Hops"]?.asInteger ?? 0
    rssi = SignalStrength.dBm(properties["Rssi"]?.asInteger)
    if case .uint64(let time)? = properties["LastSeen"]?.unwrapped { lastSeen = time }
    isVerified = flag("Verified")
    isFavourite = flag("Favourite")
    isFavouriteOfPeer = flag("FavouriteOfPeer")
    isBlocked = flag("Blocked")
    hasSession = flag("Session")
    trouble = properties["Trouble"]?.asString ?? ""
  }

  /// All peers among the objects of the service, sorted by ID.
  public static func all(_ objects: [String: [String: [String: DBusValue]]]) -> [MeshPeerView] {
    objects.values.compactMap { $0[MeshNames.peerInterface].flatMap { MeshPeerView($0) } }.sorted { $0.id < $1.id }
  }

  public var isNear: Bool { hops > 0 }
}

extension MeshNameIndex {
  public init(_ peers: some Sequence<MeshPeerView>) {
    self.init()
    for peer in peers { add(peer) }
  }

  /// Adds a peer to the list, or replaces the entry with the same ID.
  public mutating func add(_ peer: MeshPeerView) {
    add(peer.id, nickname: peer.nickname, verifiedName: peer.verifiedName, nicknameHistory: peer.nicknameHistory)
  }
}
