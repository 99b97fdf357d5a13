import BitchatWire
import Common

extension LinkTable<MeshLink> {
  /// Selects one link to each device of each neighbour, and each link without a known peer, except `heardOn`. If
  /// several devices have own links of one peer, all are used: any of them may be an attacker's that replays announces.
  func targets(but heardOn: [LinkID] = []) -> [LinkID] {
    var chosen: [LinkID] = []
    chosen.reserveCapacity(count)
    for (link, state) in self where !heardOn.contains(link) {
      // A device that had the packet on one link does not need it on another.
      if let peer = state.peer, isServed(peer, besides: link, state, heardOn) { continue }
      chosen.append(link)
    }
    return chosen
  }

  /// Whether the device at the other end has another link that is preferred, or that is in `heardOn`.
  private func isServed(_ peer: PeerID, besides link: LinkID, _ state: MeshLink, _ heardOn: [LinkID]) -> Bool {
    for (other, another) in self where other != link && another.peer == peer && another.origin == state.origin {
      if heardOn.contains(other) { return true }
      if state.broughtAt == 0, another.broughtAt > 0 || other.number < link.number { return true }
    }
    return false
  }

  /// Links over which packets for a neighbour are sent; empty if the peer is not a neighbour.
  func links(to peer: PeerID) -> [LinkID] { targets().filter { self[$0]?.peer == peer } }

  /// Own links of a neighbour; empty if the peer's own neighbour list denies them. A replayed announce can make another
  /// device's link look like the peer's, because the TTL is not signed. Packets for the peer then go over all links.
  ///
  /// - Parameter own: this node.
  func ownLinks(of peer: PeerID, own: PeerID, _ peers: PeerTable, _ ways: PeerWays) -> [LinkID] {
    let near = links(to: peer)
    guard !near.isEmpty, let known = peers[peer], known.names(own) == false, let saidAt = known.neighboursAt
    else { return near }
    return ways.isDenied(by: peer, saidAt: saidAt) ? [] : near
  }

  /// Maximum length of a frame on a link, in bytes.
  func frameLimit(of link: LinkID) -> Int {
    Swift.min(Limits.frameBytes, index(of: link).map { values[$0].frameLimit } ?? Limits.frameBytes)
  }

  /// Maximum length of a frame on all of these links, in bytes.
  func narrowest(_ targets: [LinkID]) -> Int { targets.map { frameLimit(of: $0) }.min() ?? Limits.frameBytes }

  /// Whether frames on a link are shorter than on one to an iPhone.
  func isNarrow(_ link: LinkID) -> Bool { frameLimit(of: link) < Limits.commonFrameBytes }
}
