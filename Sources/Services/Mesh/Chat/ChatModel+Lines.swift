import CommandLine
import Common
import MeshViews
import Tool

extension ChatModel {
  /// Takes in what happens, without a screen: nothing is read by that.
  mutating func take(_ event: ChatEvent) -> [ChatAction] {
    columns = 0
    return handle(event)
  }

  /// What a line of the input asks for, and what is wrong with it.
  ///
  /// Each line stands for itself: it is for everybody, or it is a command.
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
    // Lines cannot show a fingerprint to compare, so /verify takes only a code here.
    let isCode = word == "/verify" && PastedText.trimmed(String(line.dropFirst(word.count))).hasPrefix("bitchat:")
    guard isCode || Self.lineCommands.contains(word) else {
      return ([], "\(ChatText.name(word)) does nothing here. A text that begins with a slash: //\u{2026}")
    }
    let actions = obey(line)
    if actions.isEmpty { return ([], remark.isEmpty ? "Say what: \(word) NAME TEXT" : remark) }
    return (actions, nil)
  }

  /// The commands that mean something where there is no screen. `/who` only writes lines, so ``ChatLines`` carries it out.
  private static let lineCommands = ["/msg", "/all", "/send", "/nick", "/favourite", "/favorite", "/block"]

  /// A message as a line: for people with the time and harmless, as JSON as it came.
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
