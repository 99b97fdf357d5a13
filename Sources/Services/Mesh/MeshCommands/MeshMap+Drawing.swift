import Terminal

extension MeshMap {
  /// The map as lines of text.
  ///
  /// - Parameters:
  ///   - width: the columns that a line may have; nil cuts nothing, for output into a file.
  ///   - height: the lines that there may be, if there is a width; nil for any number. Where not all fits, the nearest peers
  ///     stay, and it is said how many are not shown.
  func lines(width: Int?, height: Int? = nil) -> [String] {
    let none: [String] = links.isEmpty ? [Self.cut("No link with anybody is known.", width)] : []
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

  /// The lines of a list where there is no room for all, its heading among them.
  private static let fewLines = 3

  /// The lists for which there is room beside a tree of some lines.
  private func fewer(_ lists: [[String]], _ height: Int) -> [[String]] {
    var room = height - min(height, 6)
    return lists.filter { list in
      guard list.count + 1 <= room else { return false }
      room -= list.count + 1
      return true
    }
  }

  /// The parts with an empty line between them.
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
      Self.list("Not connected to anybody known:", alone, width, atMost: lines),
    ].filter { !$0.isEmpty }
  }

  /// A heading, and below it the items with commas between them, broken between items; at the end how many did not fit.
  private static func list(_ heading: String, _ items: [String], _ width: Int?, atMost limit: Int?) -> [String] {
    guard !items.isEmpty else { return [] }
    guard let width else { return [heading] + items.map { "  " + $0 } }
    let all = wrapped(items, width)
    let rows = max(1, (limit ?? Int.max) - 1)
    var lines = all
    // An item takes three columns at least: its name, a comma and a blank.
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

  /// The trees, one below the other; of more peers than there are lines the nearest ones of the first trees.
  private func treeLines(_ width: Int?, atMost limit: Int? = nil) -> [String] {
    let count = trees.map(\.count).reduce(0, +)
    // A tree that is not the own node's has a line above it.
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
      (index == 1 ? [Self.cut("Not joined to this node by known links:", width)] : []) + drawn(tree, width)
    }
  }

  /// A tree in the order of reading: each peer is followed by those that are reached through it.
  private func drawn(_ tree: [Node], _ width: Int?) -> [String] {
    guard let root = tree.first else { return [] }
    let children = Dictionary(grouping: tree.dropFirst(), by: { $0.parent ?? "" })
    var lines: [String] = []
    // A chain may be as long as there are peers: its end is kept in a list of our own, and not on the stack.
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

  /// A peer's line; where the branches leave less than half of it, the number of hops stands in their place.
  private func line(_ node: Node, before: String, branch: String, _ width: Int?) -> String {
    var text = name(node.id)
    if node.id == own { text += " (this node)" }
    if let signal = signal(node.id) { text += "  \(signal) dBm" }
    guard let width else { return before + branch + text }
    let isDeep = DisplayText.width(before + branch) > width / 2
    return DisplayText.cut(isDeep ? "… \(node.depth) hops: \(text)" : before + branch + text, to: width)
  }
}
