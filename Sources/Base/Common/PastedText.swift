/// A text that a person pastes or a scanner types: a code, an ID, a name, a message. Mail programs, terminals and
/// scanners add invisible characters around it: blanks, line ends, tabs, no-break spaces and byte order marks.
public enum PastedText {
  /// Removes white space and invisible marks from the two ends of the text.
  public static func trimmed(_ text: String) -> String {
    var scalars = text.unicodeScalars[...]
    while let first = scalars.first, isBlank(first) { scalars.removeFirst() }
    while let last = scalars.last, isBlank(last) { scalars.removeLast() }
    return scalars.count == text.unicodeScalars.count ? text : String(scalars)
  }

  /// Removes white space and invisible marks everywhere, for a code that contains none: a mail program may have broken
  /// it into lines.
  public static func unbroken(_ text: String) -> String {
    String(String.UnicodeScalarView(text.unicodeScalars.filter { !isBlank($0) }))
  }

  private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar {
    // Zero-width space, word joiner, and the byte order mark, which is the zero-width no-break space.
    case "\u{200B}", "\u{2060}", "\u{FEFF}": true
    default: scalar.properties.isWhitespace
    }
  }
}
