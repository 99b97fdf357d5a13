import CommandLine
import Common
import MeshViews
import Tool

extension ChatModel {
  /// Handles an event without a screen, so that nothing is marked as read.
  mutating func take(_ event: ChatEvent) -> [ChatAction] {
    columns = 0
    return handle(event)
  }

  /// Returns the actions that a line of input causes, and a complaint if it is wrong.
  ///
  /// Each line is independent: a message to everybody, or a command.
  mutating func line(_ text: String) -> (actions: [ChatAction], complaint: String?) {
    let plain = text.unicodeScalars.filter { $0 == "\t" || $0.properties.generalCategory != .control }
    let line = PastedText.trimmed(String(String.UnicodeScalarView(plain)))
    guard !line.isEmpty else { return ([], nil) }
    current = Self.everybody
    remark = ""
    defer { current = Self.everybody }
    guard line.hasPrefix("/"), !line.hasPrefix("//") else {
      return (said(line.hasPrefix("//") ? String(line.dropFirst()) : line), nil)
    }
    let word = line.prefix { !$0.isWhitespace }.lowercased()
    // Lines cannot show a fingerprint for comparison, so /verify takes only a code here.
    let isCode = word == "/verify" && PastedText.trimmed(String(line.dropFirst(word.count))).hasPrefix("bitchat:")
    guard isCode || Self.lineCommands.contains(word) else {
      return ([], "\(ChatText.name(word)) is not available here. A text that begins with a slash: //\u{2026}")
    }
    let actions = obey(line)
    if actions.isEmpty { return ([], remark.isEmpty ? "Usage: \(word) NAME TEXT" : remark) }
    return (actions, nil)
  }

  /// Commands that work without a screen. `/who` only writes lines, so ``ChatLines`` executes it.
  private static let lineCommands = ["/msg", "/all", "/send", "/nick", "/favourite", "/favorite", "/block"]

  /// A message as a line: for people with the time and sanitised, as JSON unchanged.
  func line(of message: MeshMessageView, isJSON: Bool) -> String {
    guard isJSON else {
      let name = book.label(of: message.sender, nickname: message.nickname)
      let direction = message.isPrivate ? " → you" : ""
      return "\(moment(message.time).time) \(name)\(direction): \(ChatText.plainLine(message.text))"
    }
    let name = book.name(of: message.sender, nickname: message.nickname)
    let object = JSONValue.object([
      .init("message", .int(Int64(message.number))), .init("time", .int(Int64(clamping: message.time))),
      .init("private", .bool(message.isPrivate)), .init("sender", .string(message.sender)),
      .init("name", .string(name)), .init("text", .string(message.text)),
    ])
    return JSONWriter.write(object, .compact)
  }
}
