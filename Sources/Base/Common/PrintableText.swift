/// Text from a peer, a file or a program, made fit to be shown on one line.
public enum PrintableText {
  /// How many Unicode scalars of a foreign string are shown. The limit counts scalars and not characters, because one
  /// character may carry thousands of combining marks.
  public static let limit = 200

  /// The text, cut after `limit` scalars with an ellipsis. U+FFFD stands for every scalar that is invisible, could move the
  /// cursor, or could turn the direction of reading. No more of `text` is read than is shown.
  public static func clean(_ text: String, limit: Int = limit) -> String {
    var result = String.UnicodeScalarView()
    for (index, scalar) in text.unicodeScalars.enumerated() {
      guard index < limit else {
        result.append("…")
        break
      }
      result.append(isHarmless(scalar) ? scalar : "\u{FFFD}")
    }
    return String(result)
  }

  private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse, .surrogate: false
    // The bidi controls are format characters. Emoji and many scripts need two joiners, and no others.
    case .format: scalar == "\u{200C}" || scalar == "\u{200D}"
    default: true
    }
  }
}
