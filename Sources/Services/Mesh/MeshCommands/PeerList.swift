import Calendar
import CommandLine
import MeshNaming
import MeshViews
import Terminal

/// Table of the peers, those in range first.
enum PeerList {
  static func ordered(_ peers: [MeshPeerView], _ names: MeshNameBook) -> [MeshPeerView] {
    peers.sorted {
      let (left, right) = (names.name(of: $0.id), names.name(of: $1.id))
      return ($0.isNear ? $0.hops : Int.max, left, $0.id) < ($1.isNear ? $1.hops : Int.max, right, $1.id)
    }
  }

  /// - Parameter time: formats milliseconds since 1970.
  static func text(
    _ peers: [MeshPeerView], _ names: MeshNameBook, width: Int?, colour: Bool,
    time: (UInt64) -> String = LocalTime.text
  ) -> String {
    var table = TextTable([
      .init("NAME"), .init("PEER"), .init("HOPS", .right), .init("SIGNAL", .right), .init("SEEN"), .init("MARKS"),
    ])
    for peer in ordered(peers, names) {
      table.append([
        names.name(of: peer.id), peer.id, peer.isNear ? "\(peer.hops)" : "-", peer.rssi.map { "\($0) dBm" } ?? "",
        peer.lastSeen == 0 ? "" : time(peer.lastSeen),
        marks(peer, names).joined(separator: " "),
      ])
    }
    let troubles = ordered(peers, names).filter { !$0.trouble.isEmpty }.map {
      "\n\(names.name(of: $0.id)): \(MeshText.line($0.trouble))"
    }
    return table.text(width: width, colour: colour) + troubles.joined()
  }

  private static func marks(_ peer: MeshPeerView, _ names: MeshNameBook) -> [String] {
    let verified = names.formerVerifiedName(of: peer.id).map { "verified as <\($0)>" } ?? "verified"
    return [
      (peer.isBlocked, "blocked"), (peer.isVerified, verified), (peer.isFavourite, "favourite"),
      (peer.isFavouriteOfPeer, "likes-us"), (peer.hasSession, "session"),
    ].filter(\.0).map(\.1)
  }

  static func json(_ peer: MeshPeerView, _ names: MeshNameBook) -> JSONValue {
    .object([
      .init("peer", .string(peer.id)), .init("name", .string(names.name(of: peer.id))),
      .init("nickname", .string(peer.nickname)), .init("fingerprint", .string(peer.fingerprint)),
      .init("direct", .bool(peer.isDirect)), .init("hops", peer.isNear ? .int(Int64(peer.hops)) : .null),
      .init("signal", peer.rssi.map { .int(Int64($0)) } ?? .null), .init("lastSeen", .unsigned(peer.lastSeen)),
      .init("verified", .bool(peer.isVerified)), .init("verifiedName", .string(peer.verifiedName)),
      .init("favourite", .bool(peer.isFavourite)),
      .init("favouriteOfPeer", .bool(peer.isFavouriteOfPeer)), .init("blocked", .bool(peer.isBlocked)),
      .init("session", .bool(peer.hasSession)), .init("trouble", .string(peer.trouble)),
    ])
  }
}
