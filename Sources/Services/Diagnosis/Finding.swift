import CommandLine
import Common
import Terminal

/// One line of `earshot doctor`: the state of one part of this machine, and what to do about it.
struct Finding: Sendable, Equatable {
  enum Level: String, Sendable, CaseIterable {
    case ok, warning, error
  }

  let level: Level
  /// The part of the machine, one word: `adapter`.
  let topic: String
  let sentence: String
  /// The command or change that solves the problem; empty if there is nothing to do.
  let remedy: String

  static func ok(_ topic: String, _ sentence: String) -> Finding {
    Finding(level: .ok, topic: topic, sentence: sentence, remedy: "")
  }

  static func warning(_ topic: String, _ sentence: String, _ remedy: String = "") -> Finding {
    Finding(level: .warning, topic: topic, sentence: sentence, remedy: remedy)
  }

  static func error(_ topic: String, _ sentence: String, _ remedy: String) -> Finding {
    Finding(level: .error, topic: topic, sentence: sentence, remedy: remedy)
  }

  var json: JSONValue {
    .object([
      .init("topic", .string(topic)), .init("level", .string(level.rawValue)), .init("sentence", .string(sentence)),
      .init("remedy", .string(remedy)),
    ])
  }
}

extension [Finding] {
  func count(of level: Finding.Level) -> Int { count { $0.level == level } }

  /// The result of the examination in one sentence.
  var summary: String {
    let (errors, warnings) = (count(of: .error), count(of: .warning))
    if errors + warnings == 0 { return "Nothing is wrong." }
    return "\(Self.number(errors, "error")), \(Self.number(warnings, "warning"))."
  }

  private static func number(_ count: Int, _ word: String) -> String { "\(count) \(word)\(count == 1 ? "" : "s")" }

  var json: JSONValue {
    .object([
      .init("errors", .int(Int64(count(of: .error)))), .init("warnings", .int(Int64(count(of: .warning)))),
      .init("findings", .array(map(\.json))),
    ])
  }

  /// The findings as text: level and topic in columns, the sentence and the remedy beside them.
  ///
  /// - Parameters:
  ///   - width: the columns of the terminal; nil for output to a file, which is not wrapped.
  ///   - colour: whether the levels are coloured.
  func text(width: Int?, colour: Bool) -> String {
    let topics = map(\.topic.count).max() ?? 0
    let indent = Self.levelWidth + 2 + topics + 2
    let blank = String(repeating: " ", count: indent)
    // Swift 6.0.3 selects the other `flatMap` unless the result type is declared.
    let lines: [String] = flatMap { finding -> [String] in
      let remedy = finding.remedy.isEmpty ? [] : ["Try: \(finding.remedy)"]
      let texts = ([finding.sentence] + remedy).map { PrintableText.clean($0, limit: 2000) }
      let wrapped: [String] = texts.flatMap { text -> [String] in
        width.map { DisplayText.wrap(text, to: Swift.max(20, $0 - indent)) } ?? [text]
      }
      let level = Self.padded(finding.level.rawValue, Self.levelWidth)
      let shown = colour ? Self.coloured(level, finding.level) : level
      let head = "\(shown)  \(Self.padded(finding.topic, topics))  "
      return wrapped.enumerated().map { $0.offset == 0 ? head + $0.element : blank + $0.element }
    }
    return (lines + ["", summary]).map { $0 + "\n" }.joined()
  }

  /// The columns of the longest level.
  private static var levelWidth: Int { 7 }

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: Swift.max(0, width - text.count))
  }

  private static func coloured(_ text: String, _ level: Finding.Level) -> String {
    switch level {
    case .ok: "\u{1B}[32m\(text)\u{1B}[0m"
    case .warning: "\u{1B}[33m\(text)\u{1B}[0m"
    case .error: "\u{1B}[31m\(text)\u{1B}[0m"
    }
  }
}
