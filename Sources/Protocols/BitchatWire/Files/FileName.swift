import Common

/// Sanitises file names chosen by other peers.
public enum FileName {
  /// Maximum length of a plain name, in characters.
  public static let limit = 100
  /// Maximum length of a plain name, in bytes. File systems allow 255.
  public static let byteLimit = 200

  /// Returns a name that is not a path and contains no invisible characters.
  ///
  /// Takes the text behind the last slash or backslash, on one line, without control characters and leading dots.
  /// Shortens it to 100 characters and retains the extension. If nothing is left, returns `file` with the suffix of the
  /// kind.
  ///
  /// A name without an extension of its kind gets the kind's suffix, so that an image is not opened as a page or a
  /// program. A file of kind `octetStream` retains its extension.
  public static func plain(_ name: String, _ kind: FileKind) -> String {
    let scalars = name.unicodeScalars
    let last =
      scalars.lastIndex { $0 == "/" || $0 == "\\" }.map { scalars[scalars.index(after: $0)...] } ?? scalars[...]
    // One character may have thousands of combining marks. Scalars are counted, and only those are examined that can
    // matter.
    let looked = last.count > 2 * lookedAt ? Array(last.prefix(lookedAt)) + Array(last.suffix(lookedAt)) : Array(last)
    let shown = looked.filter { PrintableText.clean(String($0)) == String($0) && $0 != "\u{FFFD}" }
    // Scalars are compared, not characters: a space or a dot behind U+0D4E is part of the same character.
    let words = shown.split { $0.properties.isWhitespace }.joined(separator: " ".unicodeScalars)
    let bare = Array(words.drop { $0 == "." || $0 == " " })
    let cut = fitted(bare)
    if cut.isEmpty { return "file.\(kind.suffix)" }
    if kind == .octetStream || hasEnding(of: kind, cut) { return cut }
    return fitted(Array("\(cut).\(kind.suffix)".unicodeScalars))
  }

  private static func hasEnding(of kind: FileKind, _ name: String) -> Bool {
    let scalars = name.unicodeScalars
    guard let dot = scalars.lastIndex(of: "."), dot > scalars.startIndex else { return false }
    return kind.endings.contains(String(scalars[scalars.index(after: dot)...]).lowercased())
  }

  private static let lookedAt = 2000
  /// Maximum length of an extension that a shortened name retains, including the dot.
  private static let endingLimit = 12

  private static func fitted(_ name: [Unicode.Scalar]) -> String {
    let dot = name.lastIndex(of: ".").flatMap { $0 > 0 && name.count - $0 <= endingLimit ? $0 : nil }
    let ending = dot.map { Array(name[$0...]) } ?? []
    var stem = Array(name.dropLast(ending.count).prefix(limit - ending.count))
    while text(stem + ending).utf8.count > byteLimit, stem.count > 1 { stem.removeLast() }
    // Some file systems do not allow a space or a dot at the end.
    var whole = stem + ending
    while let end = whole.last, end == "." || end == " " { whole.removeLast() }
    return text(whole)
  }

  private static func text(_ scalars: [Unicode.Scalar]) -> String {
    String(String.UnicodeScalarView(scalars))
  }
}
