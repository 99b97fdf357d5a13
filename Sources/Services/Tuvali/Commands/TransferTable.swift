import Common
import DBus
import Loop
import Terminal
import Tool

/// The transfers of a service, a line each.
@LoopActor
enum TransferTable {
  /// The transfers below an object, in the order of their numbers.
  static func transfers(
    _ objects: ToolPart.Objects, below root: ObjectPath
  ) -> [(path: String, properties: [String: DBusValue])] {
    objects.filter { $0.key.hasPrefix(root.string + "/") }
      .compactMap { path, interfaces in interfaces[TransferView.interface].map { (path: path, properties: $0) } }
      .sorted { ($0.path.utf8.count, $0.path) < ($1.path.utf8.count, $1.path) }
  }

  /// The name of a transfer: `verifier/credential7`.
  static func name(_ path: String) -> String {
    String(path.dropFirst(Client.manager.string.count + 1))
  }

  /// For `earshot status`: the table with an empty line before it; empty if the service has no transfers.
  ///
  /// - Parameter root: the transfers are its children.
  static func text(_ objects: ToolPart.Objects, below root: ObjectPath) -> String {
    let transfers = transfers(objects, below: root)
    return transfers.isEmpty ? "" : "\n" + text(transfers)
  }

  static func text(_ transfers: [(path: String, properties: [String: DBusValue])]) -> String {
    var table = TextTable([
      .init("TRANSFER"), .init("STATE"), .init("PEER"), .init("DIALECT"), .init("BYTES", .right), .init("ERROR"),
    ])
    for (path, properties) in transfers {
      func text(_ name: String) -> String { properties[name]?.text ?? "" }
      table.append([
        name(path), text("State"), text("Peer"), text("Dialect"),
        humanBytes(properties["BytesTransferred"]?.asInteger ?? 0), text("ErrorCode"),
      ])
    }
    let terminal = Output.terminal
    return table.text(width: terminal.isTerminal ? terminal.width : nil, colour: terminal.hasColour)
  }
}
