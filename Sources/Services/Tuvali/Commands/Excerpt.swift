import Common
import Terminal
import Tool

/// The beginning of a text, fit for a terminal.
enum Excerpt {
  private static let lines = 6

  /// Six lines at most; what a terminal would obey is taken out.
  static func of(_ text: [UInt8]) -> String {
    let width = max(20, Output.terminal.width - 4)
    let beginning = String(decoding: text.prefix(width * lines), as: UTF8.self)
    var rest = Substring(PrintableText.clean(beginning, limit: width * lines))
    var out: [Substring] = []
    while !rest.isEmpty, out.count < lines {
      out.append(rest.prefix(width))
      rest = rest.dropFirst(width)
    }
    let more = text.count > beginning.utf8.count ? "\n  …" : ""
    return out.map { "  " + $0 }.joined(separator: "\n") + more
  }
}
