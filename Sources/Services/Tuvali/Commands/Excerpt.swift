import Common
import Terminal
import Tool

/// Sanitised beginning of a text for a terminal.
enum Excerpt {
  private static let lines = 6
  private static let limit = 80 * lines

  /// Returns one line of at most `limit` characters, without control characters.
  static func line(_ text: [UInt8], limit: Int = limit) -> String {
    // A Unicode scalar has at most four bytes in UTF-8.
    let beginning = String(decoding: text.prefix(limit * 4), as: UTF8.self)
    return PrintableText.clean(beginning, limit: limit)
  }

  /// Returns at most six lines, each indented by two columns.
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
