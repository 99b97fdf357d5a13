import Common
import Terminal
import Tool

/// The beginning of a text, fit for a terminal.
enum Excerpt {
  private static let lines = 6
  private static let limit = 80 * lines

  /// One line of at most so many characters; what a terminal would obey is taken out.
  static func line(_ text: [UInt8], limit: Int = limit) -> String {
    // A character has four bytes at most.
    let beginning = String(decoding: text.prefix(limit * 4), as: UTF8.self)
    return PrintableText.clean(beginning, limit: limit)
  }

  /// Six lines at most, each indented by two columns.
  static func paragraph(_ text: [UInt8]) -> String {
    let width = max(20, Output.terminal.width - 4)
    var rest = Substring(line(text))
    var out: [Substring] = []
    while !rest.isEmpty, out.count < lines {
      out.append(rest.prefix(width))
      rest = rest.dropFirst(width)
    }
    return out.map { "  " + $0 }.joined(separator: "\n") + (rest.isEmpty ? "" : "\n  …")
  }
}
