import CommandLine
import Common
import DBus
import Loop
import Terminal
import Tool

/// `earshot mesh uplink`: the state of private messages outside of the mesh, which have a service of their own.
@LoopActor
struct UplinkCommand {
  nonisolated static let target = ToolTarget(busName: "org.earshot.Nostr", unit: "earshot-nostrd")
  nonisolated static let path: ObjectPath = "/org/earshot/uplink"
  nonisolated static let interface = "org.earshot.Uplink1"

  private let client: Client
  private let line: ParsedCommand

  init(_ client: Client, _ line: ParsedCommand) { (self.client, self.line) = (client, line) }

  func run() async throws(Failure) -> ExitCode {
    try await client.connect()
    let view = UplinkView(try await client.properties(Self.path, Self.interface))
    if line.flag("key") {
      guard !view.publicKey.isEmpty else { throw Failure(.failed, view.reason) }
      Output.line(view.publicKey)
    } else if line.flag("json") {
      Output.json(view.json)
    } else {
      Output.write(view.text(width: Output.terminal.width))
    }
    return .ok
  }
}

/// The state of the uplink, formatted.
struct UplinkView {
  struct Relay: Equatable {
    let address: String
    let purpose: String
    let state: String
    let reason: String
  }

  let state: String
  let reason: String
  let publicKey: String
  let waiting: UInt64
  let relays: [Relay]
  let counters: [(name: String, count: UInt64)]

  init(_ properties: [String: DBusValue]) {
    func text(_ name: String) -> String { Self.clean(properties[name]?.asString ?? "") }
    (state, reason, publicKey) = (text("State"), text("Reason"), text("PublicKey"))
    waiting = UInt64(properties["Waiting"]?.asUInt32 ?? 0)
    relays = (properties["Relays"]?.asArray ?? []).compactMap { value in
      let words = (value.asArray ?? []).compactMap(\.asString).map { Self.clean($0) }
      return words.count == 4 ? Relay(address: words[0], purpose: words[1], state: words[2], reason: words[3]) : nil
    }
    counters = (properties["Counters"]?.asDictionary ?? [:]).compactMap { name, value in
      value.asUInt64.map { (name, $0) }
    }.sorted { $0.name < $1.name }
  }

  /// Texts of the service, for a terminal.
  private static func clean(_ text: String) -> String { PrintableText.clean(text, limit: 1000) }

  /// One line for each value and each relay, and the counters that are not 0.
  ///
  /// - Parameter width: the columns of the terminal.
  func text(width: Int) -> String {
    let wait = waiting == 1 ? "1 message or receipt" : "\(waiting) messages and receipts"
    let rows: [(String, String)] = [
      ("state", state), ("reason", reason), ("key", publicKey), ("waiting", waiting == 0 ? "" : wait),
    ]
    let lines = rows.filter { !$0.1.isEmpty }.map { name, value in
      name + String(repeating: " ", count: 9 - name.count) + value + "\n"
    }
    let places = relays.map { relay in
      let purpose = relay.purpose == "messages" ? "" : " (\(relay.purpose))"
      let reason = relay.reason.isEmpty || relay.state == "live" ? "" : ": \(relay.reason)"
      return "  \(relay.address)\(purpose)  \(relay.state)\(reason)\n"
    }
    let counted = UplinkCounters.table.lines(
      counters.filter { $0.count > 0 }.map { ($0.name, Int(clamping: $0.count)) }, width: width)
    return lines.joined() + (places.isEmpty ? "" : "relays\n" + places.joined())
      + (counted.isEmpty ? "" : "counters\n" + counted.map { $0 + "\n" }.joined())
  }

  var json: JSONValue {
    .object([
      .init("state", .string(state)), .init("reason", .string(reason)), .init("publicKey", .string(publicKey)),
      .init("waiting", .unsigned(waiting)),
      .init(
        "relays",
        .array(
          relays.map {
            .object([
              .init("address", .string($0.address)), .init("purpose", .string($0.purpose)),
              .init("state", .string($0.state)), .init("reason", .string($0.reason)),
            ])
          })),
      .init("counters", .object(counters.map { .init($0.name, .unsigned($0.count)) })),
    ])
  }
}
