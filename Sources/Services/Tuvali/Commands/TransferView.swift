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
  /// Whether it was there before this program.
  let isOld: Bool
  private(set) var properties: [String: DBusValue]
  private let begin = EventLoop.shared.now

  init(_ path: ObjectPath, _ properties: [String: DBusValue], isOld: Bool = false) {
    self.path = path
    self.isOld = isOld
    self.properties = properties
  }

  func update(_ values: [String: DBusValue]) {
    properties.merge(values) { $1 }
  }

  /// `credential7`, the last part of the path.
  var name: String { path.string.split(separator: "/").last.map(String.init) ?? "" }
  var state: String { text("State") }
  var isUnderWay: Bool { state == "connected" || state == "transferring" }
  var isEnded: Bool { Self.ends.contains(state) }
  var isFailed: Bool { state == "failed" }
  var peer: String { text("Peer") }
  /// `TVV_TRA_002: 64 of 82 chunks are missing.` The code alone where this program may not see the sentence.
  var error: String { [text("ErrorCode"), text("ErrorMessage")].filter { !$0.isEmpty }.joined(separator: ": ") }

  /// `sent` or `peerGone` after a verdict; empty before.
  var verdictDelivery: String { text("VerdictDelivery") }
  /// What to add to the report of a verdict, with a space before it; empty if the phone was notified.
  var deliveryNote: String {
    verdictDelivery == "peerGone" ? " The phone had already left and was not notified." : ""
  }

  /// Asks for what no signal tells every program: the peer, and the error's sentence. What cannot be had is left out.
  func complete(_ client: Client) async {
    if let found = try? await client.properties(path, Self.interface) { update(found) }
  }

  /// How far it is.
  func bar(_ label: String) -> ProgressBar {
    let done = properties["BytesTransferred"]?.asInteger ?? 0
    let expected = properties["BytesExpected"]?.asInteger ?? 0
    let elapsed = begin.duration(to: EventLoop.shared.now)
    let milliseconds = Int(elapsed / .milliseconds(1))
    return ProgressBar(
      label: label, done: done, total: expected > 0 ? expected : nil,
      rate: milliseconds > 200 ? done * 1000 / milliseconds : nil)
  }

  /// The same as a line of the terminal.
  func progress(_ label: String) -> String {
    bar(label).line(width: Output.terminal.width - 1)
  }

  private func text(_ name: String) -> String { properties[name]?.text ?? "" }
}
