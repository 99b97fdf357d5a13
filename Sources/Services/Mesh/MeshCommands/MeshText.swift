import Common
import Terminal

/// Sanitises texts of other people for a terminal.
enum MeshText {
  /// Makes one line of at most 60 characters.
  static func line(_ text: String) -> String { PrintableText.clean(text, limit: MeshText.nameLimit) }

  private static let nameLimit = 60

  /// Formats a complete text behind a heading. Further lines are indented, so that no text can look like another
  /// message.
  ///
  /// - Parameter width: columns of the terminal for wrapping; nil for a file.
  static func paragraph(_ heading: String, _ text: String, width: Int?) -> String {
    let lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline).map { line in
      PrintableText.clean(line.map { $0 == "\t" ? " " : $0 }.reduce(into: "") { $0.append($1) }, limit: line.utf8.count)
    }
    let all = heading + (lines.first ?? "")
    guard let width, width > 2 * indent.count else {
      return ([all] + lines.dropFirst().map { indent + $0 }).joined(separator: "\n")
    }
    let first = DisplayText.wrap(all, to: width)
    // Continuation lines are narrower because of the indent.
    let rest = [first.dropFirst().joined(separator: " ")] + lines.dropFirst()
    let below = rest.flatMap { DisplayText.wrap($0, to: width - indent.count) }.map { indent + $0 }
    return ([first.first ?? ""] + below).joined(separator: "\n")
  }

  private static let indent = "    "
}
