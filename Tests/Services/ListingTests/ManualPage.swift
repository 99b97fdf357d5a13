/// A manual page in the format of man(7), with lines of at most 80 bytes.
struct ManualPage {
  /// Maximum length of a line of text in bytes; `\&` may precede it.
  private static let width = 78

  private var lines: [String]
  /// Whether a heading is directly above, so that a paragraph needs no request.
  private var isBelowHeading = true

  /// - Parameters:
  ///   - name: the page's name, without its section.
  ///   - date: the date in the form `2026-11-20`.
  init(_ name: String, section: String, summary: String, date: String, version: String) {
    let heading = "\(Self.escaped(name.uppercased())) \(section) \(date) \"Earshot \(version)\""
    lines = [".TH \(heading)", ".SH NAME", "\(Self.escaped(name)) \\- \(Self.escaped(summary))"]
  }

  var text: String { lines.joined(separator: "\n") + "\n" }

  mutating func section(_ title: String) {
    lines.append(".SH \(Self.quoted(title))")
    isBelowHeading = true
  }

  mutating func subsection(_ title: String) {
    lines.append(".SS \(Self.quoted(title))")
    isBelowHeading = true
  }

  mutating func paragraph(_ text: String) {
    separate()
    lines += Self.filled(text)
  }

  /// Adds an item of a list: a term, and its explanation below it.
  mutating func item(_ term: String, _ text: String) {
    lines += [".TP", ".B \(Self.protected(Self.escaped(term)))"] + Self.filled(text)
    isBelowHeading = false
  }

  /// Adds lines that are shown unchanged.
  mutating func code(_ code: [String]) {
    separate()
    lines += [".RS 4", ".nf"] + code.map { Self.protected(Self.escaped($0)) } + [".fi", ".RE"]
  }

  private mutating func separate() {
    if !isBelowHeading { lines.append(".PP") }
    isBelowHeading = false
  }

  private static func filled(_ text: String) -> [String] {
    var lines: [String] = []
    for word in escaped(text).split(separator: " ") {
      if let line = lines.last, line.utf8.count + 1 + word.utf8.count <= width {
        lines[lines.count - 1] = "\(line) \(word)"
      } else {
        lines.append(String(word))
      }
    }
    return lines.map(protected)
  }

  /// Escapes a text so that roff reads no character of it as an escape, a hyphen or the end of an argument.
  private static func escaped(_ text: String) -> String {
    text.map { character in
      switch character {
      case "\\": "\\e"
      case "-": "\\-"
      case "…": "..."
      case "\"": "\\(dq"
      default: String(character)
      }
    }.joined()
  }

  /// Prevents roff from reading a line as a request.
  private static func protected(_ line: String) -> String {
    line.hasPrefix(".") || line.hasPrefix("'") ? "\\&\(line)" : line
  }

  private static func quoted(_ title: String) -> String {
    title.contains(" ") ? "\"\(escaped(title))\"" : escaped(title)
  }
}
