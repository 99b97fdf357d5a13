extension Command {
  /// The help text, at most 80 columns wide.
  /// - Parameters:
  ///   - path: the names of the commands, the program's first.
  ///   - options: all options that the command accepts.
  func help(path: [String], options: [Option]) -> String {
    var blocks = [usage(path: path), wrap(summary)] + details.map { wrap($0) }
    let rows: [(title: String, rows: [(String, String)])] = [
      ("Commands", commands.map { ($0.name, $0.summary + ($0.name == defaultCommand ? " (default)" : "")) }),
      ("Arguments", arguments.map { ($0.name, $0.summary) }),
      ("Options", options.map { (Self.heading($0), $0.summary + Self.choices($0)) }),
    ]
    let width = min(28, rows.flatMap(\.rows).map { $0.0.count }.max() ?? 0)
    for (title, rows) in rows where !rows.isEmpty {
      blocks.append("\(title):\n" + rows.map { Self.row($0.0, $0.1, width: width) }.joined(separator: "\n"))
    }
    return blocks.joined(separator: "\n\n") + "\n"
  }

  private func usage(path: [String]) -> String {
    var words = path + ["[OPTION...]"]
    if !commands.isEmpty { words.append(defaultCommand == nil ? "COMMAND" : "[COMMAND]") }
    for argument in arguments {
      switch argument.count {
      case .one: words.append(argument.name)
      case .optional: words.append("[\(argument.name)]")
      case .any: words.append("[\(argument.name)...]")
      }
    }
    return wrap("Usage: " + words.joined(separator: " "), indent: 7)
  }

  private static func heading(_ option: Option) -> String {
    let name = "--\(option.long)" + (option.value.map { "=\($0.name)" } ?? "")
    return (option.short.map { "-\($0), " } ?? "    ") + name
  }

  private static func choices(_ option: Option) -> String {
    guard case .choice(_, let words) = option.value else { return "" }
    return " One of \(words.joined(separator: ", "))."
  }

  private static func row(_ heading: String, _ text: String, width: Int) -> String {
    let indent = width + 4
    guard heading.count <= width else {
      return "  \(heading)\n" + String(repeating: " ", count: indent) + wrap(text, from: indent, indent: indent)
    }
    let gap = String(repeating: " ", count: width - heading.count + 2)
    return "  \(heading)\(gap)" + wrap(text, from: indent, indent: indent)
  }

  private func wrap(_ text: String, indent: Int = 0) -> String {
    Self.wrap(text, from: 0, indent: indent)
  }

  /// - Parameters:
  ///   - column: the column of the first character.
  ///   - indent: the column of further lines.
  private static func wrap(_ text: String, from column: Int, indent: Int) -> String {
    var result = ""
    var column = column
    var isLineStart = true
    for word in text.split(separator: " ") {
      if !isLineStart, column + 1 + word.count > 80 {
        result += "\n" + String(repeating: " ", count: indent)
        column = indent
        isLineStart = true
      }
      result += isLineStart ? word : " " + word
      column += word.count + (isLineStart ? 0 : 1)
      isLineStart = false
    }
    return result
  }
}
