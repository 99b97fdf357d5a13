import Calendar
import CommandLine
import MeshNaming
import MeshViews

/// Message as `earshot mesh log` shows it.
struct LogLine {
  /// Peer ID of this node.
  let own: String
  let names: MeshNameBook
  /// Columns of the terminal; nil for a file.
  let width: Int?
  /// Formats milliseconds since 1970.
  var time: (UInt64) -> String = LocalTime.text

  /// Formats a message: `2026-08-17 12:01:40  <alice>: hello`, or `<bob> → <alice> (delivered): hello` for a private
  /// one. Further lines are indented.
  func text(_ message: MeshMessageView) -> String {
    var who = names.label(of: message.sender, nickname: message.nickname)
    if message.isPrivate {
      who += " → " + names.label(of: message.sender == own ? message.conversation : own)
      if message.sender == own { who += " (\(message.state.rawValue))" }
    }
    return MeshText.paragraph("\(time(message.time))  \(who): ", message.text, width: width)
  }

  /// Line about the state of an own message.
  func text(_ message: Int, _ state: String) -> String { "  message \(message): \(MeshText.line(state))" }

  func json(_ message: MeshMessageView) -> JSONValue {
    .object([
      .init("message", .int(Int64(message.number))), .init("time", .unsigned(message.time)),
      .init("conversation", message.isPrivate ? .string(message.conversation) : .null),
      .init("sender", .string(message.sender)),
      .init("name", .string(names.name(of: message.sender, nickname: message.nickname))),
      .init("nickname", .string(message.nickname)), .init("own", .bool(message.sender == own)),
      .init("text", .string(message.text)), .init("state", .string(message.state.rawValue)),
    ])
  }
}
