import Common
import Terminal

/// Texts that other people wrote, fit for a terminal.
enum MeshText {
  /// On one line, and no longer than a name may be.
  static func line(_ text: String) -> String { PrintableText.clean(text, limit: MeshText.nameLimit) }

  private static let nameLimit = 60

  /// A text behind a heading, whole. Its further lines are indented, so that no text can look like the next message.
  ///
  /// - Parameter width: the columns of the terminal, at whose edge a line is broken and indented; nil for a file.
  static func paragraph(_ heading: String, _ text: String, width: Int?) -> String {
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map { line in
      PrintableText.clean(line.map { $0 == "\t" ? " " : $0 }.reduce(into: "") { $0.append($1) }, limit: line.utf8.count)
    }
    let all = heading + (lines.first ?? "")
    guard let width, width > 2 * indent.count else {
      return ([all] + lines.dropFirst().map { indent + $0 }).joined(separator: "\n")
    }
    let first = DisplayText.wrap(all, to: width)
    // What goes on is narrower than what begins the paragraph.
    let rest = [first.dropFirst().joined(separator: " ")] + lines.dropFirst()
    let below = rest.flatMap { DisplayText.wrap($0, to: width - indent.count) }.map { indent + $0 }
    return ([first.first ?? ""] + below).joined(separator: "\n")
  }

  private static let indent = "    "
}
