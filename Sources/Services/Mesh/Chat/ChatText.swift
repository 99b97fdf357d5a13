import Common
import MeshViews
import Terminal

/// Texts of peers, made fit for the screen and for lines.
enum ChatText {
  /// A text may have 64 KiB.
  private static let limit = 1 << 16
  private static let mostParagraphs = 100

  /// The lines as the sender broke them, each settled; at most 100, and a sentence that says so.
  static func paragraphs(_ text: String) -> [String] {
    var all = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
    while all.count > 1, all.last?.isEmpty == true { all.removeLast() }
    let shown = all.prefix(mostParagraphs).map(settled)
    return shown + (all.count > mostParagraphs ? ["(\(all.count - mostParagraphs) more lines)"] : [])
  }

  /// The same as one line.
  static func line(_ text: String) -> String { paragraphs(text).joined(separator: " ⏎ ") }

  /// A name for the screen: it stays in one piece where lines are broken.
  static func name(_ name: String, width: Int = 20) -> String {
    let settled = DisplayText.settled(name)
    guard DisplayText.width(settled) > width else { return unbroken(settled) }
    // The digits that tell namesakes apart stay.
    if let mark = settled.lastIndex(of: "#"), settled[mark...].count == 5 {
      return unbroken(DisplayText.cut(String(settled[..<mark]), to: max(1, width - 5)) + settled[mark...])
    }
    return unbroken(DisplayText.cut(settled, to: width))
  }

  private static func unbroken(_ text: String) -> String {
    String(text.map { $0 == " " ? "\u{A0}" : $0 })
  }

  private static func settled(_ line: Substring) -> String {
    let spaced = line.contains("\t") ? String(line.flatMap { $0 == "\t" ? "    " : String($0) }) : String(line)
    return DisplayText.settled(PrintableText.clean(spaced, limit: limit))
  }
}
