import BitchatWire
import Common

/// Links between peers according to their announces, and routes through them. Facts: bitchat.md sections 4 and 8.3.
struct Topology: Sendable {
  /// Maximum age of an announced neighbour list.
  static let freshTime = Duration.seconds(60)
  /// Maximum hops between this node and the recipient.
  static let hopLimit = 4

  /// Links that both ends announce, listed at both ends.
  private(set) var edges: [PeerID: Set<PeerID>] = [:]

  /// - Parameters:
  ///   - own: this node.
  ///   - neighbours: peers with a link to this node.
  init(own: PeerID, neighbours: Set<PeerID>, peers: some Sequence<Peer>, at now: Instant) {
    var said: [PeerID: Set<PeerID>] = [own: neighbours]
    for peer in peers {
      guard let at = peer.neighboursAt, at.duration(to: now) <= Self.freshTime else { continue }
      said[peer.id] = Set(peer.neighbours)
    }
    for (peer, others) in said {
      for other in others where said[other]?.contains(peer) == true { edges[peer, default: []].insert(other) }
    }
  }

  /// Returns the hops between this node and a peer on a shortest route, in order. Nil if there is no route, or the peer
  /// is a neighbour. All hops are `usable`. The smallest IDs decide between equally long routes.
  func route(from own: PeerID, to peer: PeerID, usable: (PeerID) -> Bool) -> [PeerID]? {
    guard own != peer, edges[own]?.contains(peer) != true else { return nil }
    var before: [PeerID: PeerID] = [:]
    var border = [own]
    for _ in 0...Self.hopLimit {
      var next: [PeerID] = []
      for hop in border {
        for other in edges[hop, default: []].sorted() where other != own && before[other] == nil {
          guard other == peer || usable(other) else { continue }
          before[other] = hop
          next.append(other)
        }
      }
      if before[peer] != nil { return way(to: peer, from: own, before) }
      border = next
    }
    return nil
  }

  private func way(to peer: PeerID, from own: PeerID, _ before: [PeerID: PeerID]) -> [PeerID] {
    var hops: [PeerID] = []
    var hop = peer
    while let earlier = before[hop], earlier != own {
      hops.append(earlier)
      hop = earlier
    }
    return hops.reversed()
  }
}
