import CommandLine
import MeshNaming
import MeshViews

/// Links between peers as trees: a tree of shortest paths from this node with each peer once, and the rest.
struct MeshMap: Equatable {
  /// Peer in a tree.
  struct Node: Equatable {
    let id: String
    /// Hops from the root of its tree.
    let depth: Int
    /// Previous peer on the path from the root; nil for the root.
    let parent: String?
  }

  /// Link between two peers, the smaller ID first.
  struct Link: Hashable, Comparable {
    let first: String
    let second: String

    init(_ one: String, _ other: String) {
      (first, second) = one < other ? (one, other) : (other, one)
    }

    static func < (left: Link, right: Link) -> Bool { (left.first, left.second) < (right.first, right.second) }
  }

  let own: String
  /// Tree of this node, followed by one for each part of the mesh without a known link to it. Nodes are sorted by
  /// distance from the root.
  private(set) var trees: [[Node]] = []
  /// All links, each once.
  let links: [Link]
  /// Links that are not part of a tree.
  let further: [Link]
  /// Peers without links; those in range first.
  let alone: [MeshPeerView]
  private let names: MeshNameBook
  private let peers: [String: MeshPeerView]

  /// - Parameters:
  ///   - own: peer ID of this node.
  ///   - nickname: nickname of this node.
  ///   - peers: known peers; neighbours have a link with this node.
  ///   - links: pairs of peer IDs in any order, of known and unknown peers.
  init(own: String, nickname: String, peers: [MeshPeerView], links: [(String, String)]) {
    self.own = own
    let peers = peers.filter { $0.id != own }
    var names = MeshNameBook(peers)
    names.add(own: own, nickname: nickname)
    self.names = names
    self.peers = Dictionary(peers.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    let direct = peers.filter(\.isDirect).map { Link(own, $0.id) }
    let all = Set(links.filter { $0.0 != $0.1 }.map { Link($0.0, $0.1) } + direct)
    self.links = all.sorted()
    var neighbours: [String: [String]] = [:]
    for link in all {
      neighbours[link.first, default: []].append(link.second)
      neighbours[link.second, default: []].append(link.first)
    }
    let walk = Walk(neighbours: neighbours, peers: self.peers, names: names)
    (trees, further) = walk.trees(from: own, links: self.links)
    alone = peers.filter { neighbours[$0.id] == nil }.sorted {
      let (left, right) = (names.name(of: $0.id), names.name(of: $1.id))
      return ($0.isNear ? 0 : 1, $0.hops, left, $0.id) < ($1.isNear ? 0 : 1, $1.hops, right, $1.id)
    }
  }

  /// Displayed name of a peer.
  func name(_ id: String) -> String { names.name(of: id) }

  /// Signal strength in dBm; nil if the peer is not a neighbour, or it is unknown.
  func signal(_ id: String) -> Int? {
    guard let peer = peers[id], peer.isDirect else { return nil }
    return peer.rssi
  }

  var json: JSONValue {
    let nodes = trees.enumerated().flatMap { index, tree in
      tree.filter { $0.id != own }.map { json($0.id, hops: index == 0 ? $0.depth : nil, via: $0.parent) }
    }
    return .object([
      .init("peer", .string(own)), .init("name", .string(name(own))),
      .init("peers", .array(nodes + alone.map { json($0.id, hops: $0.isNear ? $0.hops : nil, via: nil) })),
      .init("links", .array(links.map { .array([.string($0.first), .string($0.second)]) })),
    ])
  }

  /// - Parameter hops: nil without a known path.
  private func json(_ id: String, hops: Int?, via: String?) -> JSONValue {
    .object([
      .init("peer", .string(id)), .init("name", .string(name(id))),
      .init("hops", hops.map { .int(Int64($0)) } ?? .null), .init("via", .optional(via)),
      .init("signal", signal(id).map { .int(Int64($0)) } ?? .null),
    ])
  }
}

/// Search for shortest paths.
private struct Walk {
  let neighbours: [String: [String]]
  let peers: [String: MeshPeerView]
  let names: MeshNameBook

  /// Returns the tree of this node, one from the best connected peer of each other part, and the links that are in no
  /// tree.
  func trees(from own: String, links: [MeshMap.Link]) -> ([[MeshMap.Node]], [MeshMap.Link]) {
    var seen: Set<String> = []
    var trees = [tree(from: own, &seen)]
    let roots = neighbours.keys.sorted { left, right in
      let (many, few) = (neighbours[left]?.count ?? 0, neighbours[right]?.count ?? 0)
      return many != few ? many > few : isBefore(left, right)
    }
    for root in roots where !seen.contains(root) { trees.append(tree(from: root, &seen)) }
    let drawn = Set(trees.joined().compactMap { node in node.parent.map { MeshMap.Link($0, node.id) } })
    return (trees, links.filter { !drawn.contains($0) })
  }

  /// Searches breadth first, so that each peer is placed on a shortest path.
  private func tree(from root: String, _ seen: inout Set<String>) -> [MeshMap.Node] {
    var nodes = [MeshMap.Node(id: root, depth: 0, parent: nil)]
    seen.insert(root)
    var next = 0
    while next < nodes.count {
      let node = nodes[next]
      next += 1
      for id in (neighbours[node.id] ?? []).sorted(by: isBefore) where seen.insert(id).inserted {
        nodes.append(MeshMap.Node(id: id, depth: node.depth + 1, parent: node.id))
      }
    }
    return nodes
  }

  /// Sorts by signal strength, then by name.
  private func isBefore(_ left: String, _ right: String) -> Bool {
    (-strength(left), names.name(of: left), left) < (-strength(right), names.name(of: right), right)
  }

  private func strength(_ id: String) -> Int {
    guard let peer = peers[id], peer.isDirect else { return -1000 }
    return peer.rssi ?? -1000
  }
}
