import CommandLine

/// State of the local broadcast channel, formatted for `earshot nearby` and `earshot status`.
enum NearbyShown {
  /// One line for each value that the caller may see.
  static func text(_ view: NearbyView) -> String {
    let rows: [(String, String)] = [
      ("state", view.state), ("reason", view.reason), ("peers", view.peers.map { "\($0) in the last minute" } ?? ""),
      ("notified", notifications(view)),
      ("counters", NearbyCounters.summary(view).map { "\($0) All: earshot status --counters" } ?? ""),
    ]
    return rows.filter { !$0.1.isEmpty }.map { name, value in
      name + String(repeating: " ", count: 13 - name.count) + value + "\n"
    }.joined()
  }

  static func json(_ view: NearbyView) -> JSONValue {
    func number(_ value: Int?) -> JSONValue { value.map { .int(Int64($0)) } ?? .null }
    let counters = view.counters.sorted { $0.key < $1.key }.map { JSONValue.Member($0.key, .int(Int64($0.value))) }
    return .object([
      .init("state", .string(view.state)), .init("reason", .string(view.reason)),
      .init("listening", .bool(view.isListening)), .init("peers", number(view.peers)),
      .init("notifyLimit", number(view.notifyLimit)), .init("notifiesLeft", number(view.notifiesLeft)),
      .init("counters", .object(counters)),
    ])
  }

  /// Formats the lines of `earshot status`.
  static func status(_ view: NearbyView) -> String {
    var line = "  nearby    \(view.state)"
    if let peers = view.peers { line += "  \(peers) \(peers == 1 ? "peer" : "peers")" }
    let below = [view.reason, NearbyCounters.summary(view) ?? ""].filter { !$0.isEmpty }.map { "            \($0)" }
    return ([line] + below).map { $0 + "\n" }.joined()
  }

  private static func notifications(_ view: NearbyView) -> String {
    guard let limit = view.notifyLimit, let left = view.notifiesLeft else { return "" }
    return limit == 0 ? "never" : "\(limit) times a day at most, \(left) left today"
  }
}
