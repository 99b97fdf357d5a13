/// Text from a peer, a file or a client, made fit to be shown on one line.
public enum PrintableText {
  /// How many Unicode scalars of a foreign string are shown. Scalars and not characters: one character may carry
  /// thousands of combining marks.
  public static let limit = 200

  /// The text with every scalar that could move the cursor, turn the direction of reading or hide replaced by U+FFFD,
  /// cut after `limit` scalars with an ellipsis. No more of `text` is read than is shown.
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
    // Of the format characters (the bidi controls among them) only the joiners that emoji and many scripts need.
    case .format: scalar == "\u{200C}" || scalar == "\u{200D}"
    default: true
    }
  }
}
