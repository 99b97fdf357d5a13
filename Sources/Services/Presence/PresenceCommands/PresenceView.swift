import CommandLine
import DBus
import Tool

/// The names of private presence on D-Bus.
enum PresenceNames {
  static let target = ToolTarget(busName: "org.earshot.Presence", unit: "earshot-presenced")
  static let path: ObjectPath = "/org/earshot/presence"
  static let interface = "org.earshot.Presence1"
  static let peerInterface = "org.earshot.PresencePeer1"
}

/// The state of private presence, formatted for `earshot presence`.
struct PresenceView {
  let state: String
  let reason: String
  let publicKey: String
  let fingerprint: String
  let announcing: [String]
  let reachable: [String]
  let services: [String]
  let dialects: [String]
  let multiPeerConnectivity: String
  let counters: [(name: String, count: UInt64)]

  init(_ properties: [String: DBusValue]) {
    func text(_ name: String) -> String { properties[name]?.asString ?? "" }
    func texts(_ name: String) -> [String] { properties[name]?.asStrings ?? [] }
    (state, reason) = (text("State"), text("Reason"))
    (publicKey, fingerprint) = (text("PublicKey"), text("Fingerprint"))
    (announcing, reachable, services) = (texts("Announcing"), texts("Reachable"), texts("Services"))
    (dialects, multiPeerConnectivity) = (texts("Dialects"), text("MultiPeerConnectivity"))
    counters = (properties["Counters"]?.asDictionary ?? [:]).compactMap { name, value in
      value.asUInt64.map { (name, $0) }
    }.sorted { $0.name < $1.name }
  }

  /// Formats one line for each value, and the counters that are not 0.
  var text: String {
    func list(_ words: [String], _ none: String) -> String { words.isEmpty ? none : words.joined(separator: ", ") }
    let rows: [(String, String)] = [
      ("state", state), ("reason", reason), ("fingerprint", fingerprint), ("announced to", list(announcing, "nobody")),
      ("reachable", list(reachable, "no")), ("services", list(services, "none")), ("dialects", list(dialects, "none")),
    ]
    let lines = rows.filter { !$0.1.isEmpty }.map { name, value in
      name + String(repeating: " ", count: 15 - name.count) + value + "\n"
    }
    let counted = counters.filter { $0.count > 0 }.map { "  \($0.name) \($0.count)\n" }
    return lines.joined() + (counted.isEmpty ? "" : "counters\n" + counted.joined())
  }

  var json: JSONValue {
    func list(_ words: [String]) -> JSONValue { .array(words.map { .string($0) }) }
    return .object([
      .init("state", .string(state)), .init("reason", .string(reason)), .init("publicKey", .string(publicKey)),
      .init("fingerprint", .string(fingerprint)), .init("announcing", list(announcing)),
      .init("reachable", list(reachable)), .init("services", list(services)), .init("dialects", list(dialects)),
      .init("multiPeerConnectivity", .string(multiPeerConnectivity)),
      .init("counters", .object(counters.map { .init($0.name, .unsigned($0.count)) })),
    ])
  }
}

/// A known peer in the output of the tool.
struct PeerView {
  let path: ObjectPath
  let name: String
  let fingerprint: String
  let isNearby: Bool
  let ways: [String]
  let lastHeard: UInt64

  /// Reads a peer from its D-Bus interfaces.
  ///
  /// - Returns: nil if the object is not a peer.
  init?(path: String, _ interfaces: DBusValue) {
    guard let path = ObjectPath(path), let properties = interfaces[PresenceNames.peerInterface]?.asDictionary,
      let name = properties["Name"]?.asString
    else { return nil }
    (self.path, self.name) = (path, name)
    fingerprint = properties["Fingerprint"]?.asString ?? ""
    isNearby = properties["Nearby"]?.asBool ?? false
    ways = properties["Ways"]?.asStrings ?? []
    lastHeard = properties["LastHeard"]?.asUInt64 ?? 0
  }

  var json: JSONValue {
    .object([
      .init("name", .string(name)), .init("nearby", .bool(isNearby)), .init("ways", .array(ways.map { .string($0) })),
      .init("lastHeard", .unsigned(lastHeard)), .init("fingerprint", .string(fingerprint)),
    ])
  }
}
