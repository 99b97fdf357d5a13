import CommandLine
import Common
import MeshViews
import Terminal

/// State of the node for `earshot mesh show` and `earshot status`.
enum MeshShown {
  /// One line per property that the program may see.
  static func text(_ node: MeshView) -> String {
    let rows: [(String, String)] = [
      ("state", state(node)), ("reason", node.reason), ("role", node.role), ("nickname", MeshText.line(node.nickname)),
      ("peer ID", node.id), ("fingerprint", node.fingerprint), ("links", node.id.isEmpty ? "" : "\(node.links)"),
      ("unread", node.id.isEmpty ? "" : "\(node.unread)"),
      ("carrying", node.id.isEmpty ? "" : carrying(node)),
      ("counters", MeshCounters.summary(node).map { "\($0) All: earshot status --counters" } ?? ""),
    ]
    return rows.filter { !$0.1.isEmpty }.map { name, value in
      name + String(repeating: " ", count: 13 - name.count) + value + "\n"
    }.joined()
  }

  static func json(_ node: MeshView) -> JSONValue {
    let counters = node.counters.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, .int(Int64($0.value))) }
    let isSeen = !node.id.isEmpty
    return .object([
      .init("state", .string(node.state)), .init("reason", .string(node.reason)), .init("role", .string(node.role)),
      .init("nickname", isSeen ? .string(node.nickname) : .null), .init("peer", isSeen ? .string(node.id) : .null),
      .init("fingerprint", isSeen ? .string(node.fingerprint) : .null),
      .init("links", isSeen ? .int(Int64(node.links)) : .null),
      .init("unread", isSeen ? .int(Int64(node.unread)) : .null),
      .init("carried", isSeen ? .int(Int64(node.carried)) : .null), .init("counters", .object(counters)),
    ])
  }

  /// Returns the lines about the mesh in `earshot status`.
  static func status(_ node: MeshView) -> String {
    var line = "  mesh      \(state(node))"
    if !node.id.isEmpty {
      line += "  as \(MeshText.line(node.nickname)) (\(node.id)), \(node.links) \(node.links == 1 ? "link" : "links")"
      if node.unread > 0 { line += ", \(node.unread) unread" }
      if node.carried > 0 { line += ", carrying \(carrying(node))" }
    }
    let below = [node.reason, MeshCounters.summary(node) ?? ""].filter { !$0.isEmpty }.map { "            \($0)" }
    return ([line] + below).map { $0 + "\n" }.joined()
  }

  /// Number of carried envelopes, without their owners.
  private static func carrying(_ node: MeshView) -> String {
    node.carried == 1 ? "1 envelope of others" : "\(node.carried) envelopes of others"
  }

  /// Returns the state of the node as a phrase for people.
  private static func state(_ node: MeshView) -> String {
    node.state == "waitingForClock" ? "waiting for the clock" : node.state
  }
}

/// Sanitises texts of other people for a terminal.
enum MeshText {
  /// Sanitises a text for one line of at most 60 characters.
  static func line(_ text: String) -> String { PrintableText.clean(text, limit: MeshText.nameLimit) }

  private static let nameLimit = 60

  /// Formats a complete text behind a heading. Further lines are indented, so that no text can look like another
  /// message.
  ///
  /// - Parameter width: columns of the terminal for wrapping; nil for a file.
  static func paragraph(_ heading: String, _ text: String, width: Int?) -> String {
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map { line in
      PrintableText.clean(line.map { $0 == "\t" ? " " : $0 }.reduce(into: "") { $0.append($1) }, limit: line.utf8.count)
    }
    let all = heading + (lines.first ?? "")
    guard let width, width > 2 * indent.count else {
      return ([all] + lines.dropFirst().map { indent + $0 }).joined(separator: "\n")
    }
    let first = DisplayText.wrap(all, to: width)
    // Continuation lines are narrower because of the indent.
    let rest = [first.dropFirst().joined(separator: " ")] + lines.dropFirst()
    let below = rest.flatMap { DisplayText.wrap($0, to: width - indent.count) }.map { indent + $0 }
    return ([first.first ?? ""] + below).joined(separator: "\n")
  }

  private static let indent = "    "
}
