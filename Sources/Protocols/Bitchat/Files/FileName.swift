import Common

/// Names of files that others chose.
public enum FileName {
  /// The longest plain name, in characters and in bytes: disks take 255.
  public static let limit = 100
  public static let byteLimit = 200

  /// The name as a plain one, which is no path and hides nothing: what follows the last slash of either kind, without control
  /// and invisible characters, without dots at the beginning, one line, 100 characters with the end of the name kept. Where
  /// nothing is left, `file` with the suffix of the kind. A name that has no ending of its kind gets the kind's suffix, lest an image
  /// be opened as a page or a program; a file of any content (`octetStream`) keeps its ending.
  public static func plain(_ name: String, _ kind: FileKind) -> String {
    let scalars = name.unicodeScalars
    let last =
      scalars.lastIndex { $0 == "/" || $0 == "\\" }.map { scalars[scalars.index(after: $0)...] } ?? scalars[...]
    // A character may carry thousands of marks, so scalars are counted; and no more of them are looked at than may matter.
    let looked = last.count > 2 * lookedAt ? Array(last.prefix(lookedAt)) + Array(last.suffix(lookedAt)) : Array(last)
    let shown = looked.filter { PrintableText.clean(String($0)) == String($0) && $0 != "\u{FFFD}" }
    let words = String(String.UnicodeScalarView(shown)).split(whereSeparator: \.isWhitespace).joined(separator: " ")
    let bare = Array(words.unicodeScalars.drop { $0 == "." || $0 == " " })
    let cut = fitted(bare)
    if cut.isEmpty { return "file.\(kind.suffix)" }
    if kind == .octetStream || hasEnding(of: kind, cut) { return cut }
    return fitted(Array("\(cut).\(kind.suffix)".unicodeScalars))
  }

  private static func hasEnding(of kind: FileKind, _ name: String) -> Bool {
    guard let dot = name.lastIndex(of: "."), dot > name.startIndex else { return false }
    return kind.endings.contains(name[name.index(after: dot)...].lowercased())
  }

  private static let lookedAt = 2000
  /// The longest ending that is kept of a name that is too long, its dot included.
  private static let endingLimit = 12

  private static func fitted(_ name: [Unicode.Scalar]) -> String {
    let dot = name.lastIndex(of: ".").flatMap { $0 > 0 && name.count - $0 <= endingLimit ? $0 : nil }
    let ending = dot.map { Array(name[$0...]) } ?? []
    var stem = Array(name.dropLast(ending.count).prefix(limit - ending.count))
    while text(stem + ending).utf8.count > byteLimit, stem.count > 1 { stem.removeLast() }
    // A blank or a dot at the end is no part of a name on every disk.
    var whole = stem + ending
    while let end = whole.last, end == "." || end == " " { whole.removeLast() }
    return text(whole)
  }

  private static func text(_ scalars: [Unicode.Scalar]) -> String {
    String(String.UnicodeScalarView(scalars))
  }
}
