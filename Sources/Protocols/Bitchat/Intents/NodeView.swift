import Common
import Noise

/// Read-only state of the node, from which machines decide. A view is valid during one call of a machine.
struct NodeView {
  let now: Instant
  /// Milliseconds since 1970.
  let time: UInt64
  /// This node.
  let own: PeerID
  let role: NodeRole
  /// Whether phones accept packets of this node.
  let canSend: Bool
  let peers: PeerTable
  let links: LinkTable<MeshLink>
  let sessions: Sessions<PeerID>
  let blocked: Set<PeerID>

  /// Peer that a link is bound to.
  func peer(of link: LinkID) -> PeerID? { links[link]?.peer }

  /// Whether a link takes fragments at full speed because its peer is an Earshot peer.
  func isFast(_ link: LinkID) -> Bool { peer(of: link).map { peers.isEarshot($0) } ?? false }
}
