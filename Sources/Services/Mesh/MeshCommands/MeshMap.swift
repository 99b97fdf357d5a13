import CommandLine
import MeshNaming
import MeshViews
import Terminal

/// Links between peers as trees: a tree of shortest paths from this node with each peer once, and the rest.
struct MeshMap: Equatable {
  /// A peer in the tree of the map, with the peers that are reached through it.
  struct Node: Equatable {
    let id: String
    /// Number of hops between the peer and the root of its tree.
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
  /// All links that peers announce, each pair of peers once.
  let links: [Link]
  /// Links that no tree shows, because both peers are in the tree by other links.
  let further: [Link]
  /// Peers without links; those in range first.
  let alone: [MeshPeerView]
  private let names: MeshNameIndex
  private let peers: [String: MeshPeerView]

  /// - Parameters:
  ///   - own: peer ID of this node.
  ///   - nickname: nickname of this node.
  ///   - peers: known peers; neighbours have a link with this node.
  ///   - links: pairs of peer IDs in any order, of known and unknown peers.
  init(own: String, nickname: String, peers: [MeshPeerView], links: [(String, String)]) {
    self.own = own
    let peers = peers.filter { $0.id != own }
    var names = MeshNameIndex(peers)
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

  /// Returns the name under which the map shows a peer.
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

/// State of a breadth-first search for the shortest paths from this node.
private struct Walk {
  let neighbours: [String: [String]]
  let peers: [String: MeshPeerView]
  let names: MeshNameIndex

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

extension MeshMap {
  /// Lines of the map.
  ///
  /// - Parameters:
  ///   - width: maximum columns of a line; nil for no limit, for output to a file.
  ///   - height: maximum number of lines, only with a width; nil for no limit. If the map is longer, it shows the
  ///     nearest peers and the number of others.
  func lines(width: Int?, height: Int? = nil) -> [String] {
    let none: [String] = links.isEmpty ? [Self.cut("No link is known.", width)] : []
    let tree: [String] = treeLines(width) + none
    let whole: [[String]] = [tree] + parts(width)
    let rows = whole.reduce(whole.count - 1) { $0 + $1.count }
    guard let height, width != nil, rows > height else {
      return Self.joined(whole)
    }
    let lists = fewer(parts(width, atMost: Self.fewLines), height)
    let listed = lists.map { $0.count + 1 }.reduce(0, +)
    return Array(Self.joined([treeLines(width, atMost: max(1, height - listed))] + lists).prefix(max(1, height)))
  }

  /// Maximum lines of a shortened list, including its heading.
  private static let fewLines = 3

  /// Returns the lists that fit below a tree of at least six lines.
  private func fewer(_ lists: [[String]], _ height: Int) -> [[String]] {
    var room = height - min(height, 6)
    return lists.filter { list in
      guard list.count + 1 <= room else { return false }
      room -= list.count + 1
      return true
    }
  }

  /// Joins the parts with empty lines.
  private static func joined(_ parts: [[String]]) -> [String] {
    Array(parts.filter { !$0.isEmpty }.joined(separator: [""]))
  }

  private static func cut(_ line: String, _ width: Int?) -> String {
    width.map { DisplayText.cut(line, to: $0) } ?? line
  }

  // MARK: Lists

  private func parts(_ width: Int?, atMost lines: Int? = nil) -> [[String]] {
    let further = further.map { "\(name($0.first)) – \(name($0.second))" }
    let alone = alone.map { peer in
      name(peer.id) + (peer.isNear ? " (\(peer.hops) \(peer.hops == 1 ? "hop" : "hops"))" : " (not near)")
    }
    return [
      Self.list("Further links:", further, width, atMost: lines),
      Self.list("Peers without known links:", alone, width, atMost: lines),
    ].filter { !$0.isEmpty }
  }

  /// Heading, followed by comma-separated items that are broken between items. Ends with the number of omitted items.
  private static func list(_ heading: String, _ items: [String], _ width: Int?, atMost limit: Int?) -> [String] {
    guard !items.isEmpty else { return [] }
    guard let width else { return [heading] + items.map { "  " + $0 } }
    let all = wrapped(items, width)
    let rows = max(1, (limit ?? Int.max) - 1)
    var lines = all
    // An item needs at least three columns: name, comma and space.
    var shown = min(items.count, rows < items.count ? rows * width / 3 : items.count)
    while lines.count > rows, shown > 0 {
      shown -= 1
      lines = wrapped(items.prefix(shown) + ["and \(items.count - shown) more"], width)
    }
    return [cut(heading, width)] + lines.prefix(rows)
  }

  private static func wrapped(_ items: some Collection<String>, _ width: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for (index, item) in items.enumerated() {
      let item = index + 1 < items.count ? item + "," : item
      let longer = line.isEmpty ? "  " + item : line + " " + item
      if DisplayText.width(longer) <= width || line.isEmpty {
        line = longer
      } else {
        lines.append(line)
        line = "  " + item
      }
    }
    return (lines + [line]).map { cut($0, width) }
  }

  // MARK: Trees

  /// Lines of the trees, one after the other. If there are too many peers, the nearest ones of the first trees are
  /// shown.
  private func treeLines(_ width: Int?, atMost limit: Int? = nil) -> [String] {
    let count = trees.map(\.count).reduce(0, +)
    // An empty line precedes the second tree.
    let needed = count + (trees.count > 1 ? 1 : 0)
    guard let limit, needed > limit else { return drawn(trees, width) }
    var room = max(1, limit - 1)
    var kept: [[Node]] = []
    for (index, tree) in trees.enumerated() {
      if index == 1 { room -= 1 }
      guard room > 0 else { break }
      kept.append(Array(tree.prefix(room)))
      room -= kept[index].count
    }
    let hidden = count - kept.map(\.count).reduce(0, +)
    return drawn(kept, width) + (hidden > 0 && limit > 1 ? [Self.cut("and \(hidden) more", width)] : [])
  }

  private func drawn(_ trees: [[Node]], _ width: Int?) -> [String] {
    trees.enumerated().flatMap { index, tree in
      (index == 1 ? [Self.cut("Not connected to this node by known links:", width)] : []) + drawn(tree, width)
    }
  }

  /// Lines of a tree in depth-first order.
  private func drawn(_ tree: [Node], _ width: Int?) -> [String] {
    guard let root = tree.first else { return [] }
    let children = Dictionary(grouping: tree.dropFirst(), by: { $0.parent ?? "" })
    var lines: [String] = []
    // A chain may be as long as there are peers, so an explicit list replaces recursion.
    var waiting = [(node: root, before: "", isLast: true)]
    while let (node, before, isLast) = waiting.popLast() {
      let isRoot = node.parent == nil
      let branch = isRoot ? "" : isLast ? "└─ " : "├─ "
      lines.append(line(node, before: before, branch: branch, width))
      let below = isRoot ? "" : before + (isLast ? "   " : "│  ")
      let next = children[node.id] ?? []
      for (index, child) in next.enumerated().reversed() {
        waiting.append((child, below, index == next.count - 1))
      }
    }
    return lines
  }

  /// Line of a peer. If its branches need more than half of the width, the number of hops replaces them.
  private func line(_ node: Node, before: String, branch: String, _ width: Int?) -> String {
    var text = name(node.id)
    if node.id == own { text += " (this node)" }
    if let signal = signal(node.id) { text += "  \(signal) dBm" }
    guard let width else { return before + branch + text }
    let isDeep = DisplayText.width(before + branch) > width / 2
    return DisplayText.cut(isDeep ? "… \(node.depth) hops: \(text)" : before + branch + text, to: width)
  }
}
