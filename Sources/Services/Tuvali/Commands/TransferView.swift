import Common
import DBus
import Loop
import Terminal
import Tool
import Transfers

/// A transfer as its properties show it, kept up to date by the signals about it.
@LoopActor
final class TransferView {
  nonisolated static let interface = CredentialFaces.interfaceName
  private static let ends: Set<String> = ["accepted", "rejected", "undecided", "failed"]

  let path: ObjectPath
  private(set) var properties: [String: DBusValue]
  private let begin = EventLoop.shared.now

  init(_ path: ObjectPath, _ properties: [String: DBusValue]) {
    self.path = path
    self.properties = properties
  }

  func update(_ values: [String: DBusValue]) {
    properties.merge(values) { $1 }
  }

  var state: String { text("State") }
  var isEnded: Bool { Self.ends.contains(state) }
  var isFailed: Bool { state == "failed" }
  var peer: String { text("Peer") }
  /// `TVV_TRA_002: 64 of 82 chunks are missing.` The code alone where this program may not see the sentence.
  var error: String { [text("ErrorCode"), text("ErrorMessage")].filter { !$0.isEmpty }.joined(separator: ": ") }

  /// Asks for what no signal tells every program: the peer, and the error's sentence. What cannot be had is left out.
  func complete(_ client: Client) async {
    if let found = try? await client.properties(path, Self.interface) { update(found) }
  }

  /// The line of a transfer under way.
  func progress(_ label: String) -> String {
    let done = properties["BytesTransferred"]?.asInteger ?? 0
    let expected = properties["BytesExpected"]?.asInteger ?? 0
    let elapsed = begin.duration(to: EventLoop.shared.now)
    let milliseconds = Int(elapsed / .milliseconds(1))
    let bar = ProgressBar(
      label: label, done: done, total: expected > 0 ? expected : nil,
      rate: milliseconds > 200 ? done * 1000 / milliseconds : nil)
    return bar.line(width: Output.terminal.width - 1)
  }

  private func text(_ name: String) -> String { properties[name]?.text ?? "" }
}
