import Calendar
import CommandLine
import MeshNaming
import MeshViews

/// A message as `earshot mesh log` writes it.
struct LogLine {
  /// The own peer ID.
  let own: String
  let names: MeshNameBook
  /// The columns of the terminal; nil for a file.
  let width: Int?
  /// How a moment is written, given in milliseconds since 1970.
  var time: (UInt64) -> String = LocalTime.text

  /// `2026-08-17 12:01:40  <alice>: hello`, for a private one `<bob> → <alice> (delivered): hello`; further lines are indented.
  func text(_ message: MeshMessageView) -> String {
    var who = names.label(of: message.sender, nickname: message.nickname)
    if message.isPrivate {
      who += " → " + names.label(of: message.sender == own ? message.conversation : own)
      if message.sender == own { who += " (\(message.state.rawValue))" }
    }
    return MeshText.paragraph("\(time(message.time))  \(who): ", message.text, width: width)
  }

  /// What became of an own message.
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
