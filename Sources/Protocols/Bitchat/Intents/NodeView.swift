import BitchatWire
import Common
import Noise

/// Read-only state of the node, from which machines decide. A view is valid during one call of a machine.
struct NodeView {
  let now: Instant
  /// Current time, in milliseconds since 1970.
  let time: UInt64
  /// Peer ID of this node.
  let own: PeerID
  let role: NodeRole
  /// Whether phones accept packets of this node.
  let canSend: Bool
  let peers: PeerTable
  let links: LinkTable<MeshLink>
  /// Other links over which neighbours are reachable.
  let ways: PeerWays
  /// Dialect that each link accepts.
  let dialects: LinkDialects
  let sessions: Sessions<PeerID>
  let blocked: Set<PeerID>

  /// Returns the peer that has announced itself over a link; nil before that.
  func peer(of link: LinkID) -> PeerID? { links[link]?.peer }

  /// Peers with a link to this node.
  var neighbours: Set<PeerID> { Set(links.values.compactMap(\.peer)) }

  /// Own links of a neighbour; empty if the peer's own neighbour list denies them.
  func ownLinks(of peer: PeerID) -> [LinkID] { links.ownLinks(of: peer, own: own, peers, ways) }

  /// Whether a peer does not name this node as its neighbour. Its own link may then be an attacker's that replays
  /// announces, so packets for the peer go over all links.
  func isDoubtful(_ peer: PeerID) -> Bool { peers[peer]?.lacks(own) ?? false }

  /// Whether a link takes fragments at full speed because its peer is an Earshot peer.
  func isFast(_ link: LinkID) -> Bool { peer(of: link).map { peers.isEarshot($0) } ?? false }
}

/// Dialect of each link of a node.
struct LinkDialects: Sendable {
  /// Links with another dialect than the live one.
  private let others: [LinkID: MeshDialect]

  init(others: [LinkID: MeshDialect] = [:]) { self.others = others }

  subscript(link: LinkID) -> MeshDialect { others[link] ?? .live }

  /// Whether packets of a dialect may be sent over a link. Every peer relays packets of the live dialect.
  func accepts(_ dialect: MeshDialect, on link: LinkID) -> Bool { dialect == .live || self[link] == dialect }

  /// Whether packets of a dialect may be sent over any link.
  func accepts(_ dialect: MeshDialect) -> Bool { dialect == .live || others.values.contains(dialect) }

  /// Links whose peers are asked for missed packets half as often.
  var slow: Set<LinkID> { others.isEmpty ? [] : Set(others.filter { $0.value.syncsSlowly }.keys) }
}

/// Timestamps of this node's packets, in milliseconds since 1970. Each differs from the one before.
struct PacketClock: Sendable {
  /// Timestamp of the last packet that this node has made, in milliseconds since 1970.
  private(set) var last: UInt64 = 0

  /// Returns the timestamp of a packet that is made now.
  ///
  /// - Parameter time: milliseconds since 1970.
  mutating func timestamp(at time: UInt64) -> UInt64 {
    last = max(time, last &+ 1)
    // If the clock was set back by more than 1 s, the timestamps follow it.
    if last > time &+ 1000 { last = time }
    return last
  }
}
