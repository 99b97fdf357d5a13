import Common
import DBus
import Loop
import Terminal
import Tool

/// The transfers of a service in `earshot status`, a line each.
@LoopActor
enum TransferTable {
  /// The table with an empty line before it; empty if the service has no transfers.
  ///
  /// - Parameter root: the transfers are its children.
  static func text(_ objects: ToolPart.Objects, below root: ObjectPath) -> String {
    let transfers = objects.filter { $0.key.hasPrefix(root.string + "/") }.compactMap { path, interfaces in
      interfaces[TransferView.interface].map { (path: path, properties: $0) }
    }
    guard !transfers.isEmpty else { return "" }
    var table = TextTable([
      .init("TRANSFER"), .init("STATE"), .init("PEER"), .init("DIALECT"), .init("BYTES", .right), .init("ERROR"),
    ])
    for (path, properties) in transfers.sorted(by: { ($0.path.utf8.count, $0.path) < ($1.path.utf8.count, $1.path) }) {
      func text(_ name: String) -> String { properties[name]?.text ?? "" }
      let name = path.dropFirst(Client.manager.string.count + 1)
      table.append([
        String(name), text("State"), text("Peer"), text("Dialect"),
        humanBytes(properties["BytesTransferred"]?.asInteger ?? 0), text("ErrorCode"),
      ])
    }
    let terminal = Output.terminal
    return "\n" + table.text(width: terminal.isTerminal ? terminal.width : nil, colour: terminal.hasColour)
  }
}
