import Common
import DBus
import MeshNaming

/// A peer as the properties of its object show it.
public struct MeshPeerView: Sendable, Equatable {
  /// 16 lower-case hexadecimal digits.
  public var id: String
  /// What it calls itself, as it came. People are shown ``MeshNameBook/name(of:)``.
  public var nickname = ""
  /// Its nickname when it was verified; empty where it is not verified, or had none.
  public var verifiedName = ""
  /// The nicknames that a favourite or verified peer has had since then.
  public var heldNames: [String] = []
  /// 64 hexadecimal digits.
  public var fingerprint = ""
  /// Whether there is a link with it.
  public var isDirect = false
  /// 1 for a neighbour; 0 where it is not near now.
  public var hops = 0
  /// Signal strength in dBm; nil where it is not known.
  public var rssi: Int?
  /// Milliseconds since 1970.
  public var lastSeen: UInt64 = 0
  public var isVerified = false
  public var isFavourite = false
  /// Whether the peer has this node as its favourite.
  public var isFavouriteOfPeer = false
  public var isBlocked = false
  public var hasSession = false
  /// Why something of the peer was not taken, in a sentence; empty where nothing is wrong.
  public var trouble = ""

  public init(id: String) {
    self.id = id
  }

  /// - Parameter properties: of `MeshPeer1`. Nil without a peer ID; what else is missing has the value that says least.
  public init?(_ properties: [String: DBusValue]) {
    guard let id = properties["PeerId"]?.asString, !id.isEmpty else { return nil }
    func flag(_ name: String) -> Bool { properties[name]?.asBool ?? false }
    self.id = id
    nickname = properties["Nickname"]?.asString ?? ""
    verifiedName = properties["VerifiedName"]?.asString ?? ""
    heldNames = properties["HeldNames"]?.asStrings ?? []
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

  /// Every peer among the objects of the service, in the order of their IDs.
  public static func all(_ objects: [String: [String: [String: DBusValue]]]) -> [MeshPeerView] {
    objects.values.compactMap { $0[MeshNames.peerInterface].flatMap { MeshPeerView($0) } }.sorted { $0.id < $1.id }
  }

  public var isNear: Bool { hops > 0 }
  /// Whether the user trusts the peer: what it calls itself concerns the user.
  public var isTrusted: Bool { isVerified || isFavourite }
}

extension MeshNameBook {
  public init(_ peers: some Sequence<MeshPeerView>) {
    self.init()
    for peer in peers { add(peer) }
  }

  /// Adds a peer, or replaces what is known of it.
  public mutating func add(_ peer: MeshPeerView) {
    add(peer.id, nickname: peer.nickname, verifiedName: peer.verifiedName, heldNames: peer.heldNames)
  }
}
