import Calendar
import CommandLine
import MeshNaming
import MeshViews
import Terminal

/// Table of the peers, those in range first.
enum PeerList {
  static func ordered(_ peers: [MeshPeerView], _ names: MeshNameIndex) -> [MeshPeerView] {
    peers.sorted {
      let (left, right) = (names.name(of: $0.id), names.name(of: $1.id))
      return ($0.isNear ? $0.hops : Int.max, left, $0.id) < ($1.isNear ? $1.hops : Int.max, right, $1.id)
    }
  }

  /// The table, and below it the trouble of each peer that has one.
  ///
  /// - Parameters:
  ///   - width: columns of the terminal: a wider row of the table is cut, and a trouble is wrapped; nil for a file.
  ///   - time: formats milliseconds since 1970.
  static func text(
    _ peers: [MeshPeerView], _ names: MeshNameIndex, width: Int?, colour: Bool,
    time: (UInt64) -> String = LocalTime.text
  ) -> String {
    var table = TextTable([
      .init("NAME"), .init("PEER"), .init("HOPS", .right), .init("SIGNAL", .right), .init("SEEN"), .init("MARKS"),
    ])
    let peers = ordered(peers, names)
    for peer in peers {
      table.append([
        names.name(of: peer.id), peer.id, peer.isNear ? "\(peer.hops)" : "-", peer.rssi.map { "\($0) dBm" } ?? "",
        peer.lastSeen == 0 ? "" : time(peer.lastSeen),
        marks(peer, names).joined(separator: " "),
      ])
    }
    let troubles = peers.filter { !$0.trouble.isEmpty }.map {
      MeshText.paragraph("\(names.name(of: $0.id)): ", $0.trouble, width: width) + "\n"
    }
    return table.text(width: width, colour: colour) + (troubles.isEmpty ? "" : "\n") + troubles.joined()
  }

  private static func marks(_ peer: MeshPeerView, _ names: MeshNameIndex) -> [String] {
    let verified = names.formerVerifiedName(of: peer.id).map { "verified as <\($0)>" } ?? "verified"
    return [
      (peer.isBlocked, "blocked"), (peer.isVerified, verified), (peer.isFavourite, "favourite"),
      (peer.isFavouriteOfPeer, "likes-us"), (peer.hasSession, "session"),
    ].filter(\.0).map(\.1)
  }

  static func json(_ peer: MeshPeerView, _ names: MeshNameIndex) -> JSONValue {
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
