/// Text from a peer, a file or a program, made fit to be shown on one line.
public enum PrintableText {
  /// How many Unicode scalars of a foreign string are shown. The limit counts scalars and not characters, because one
  /// character may carry thousands of combining marks.
  public static let limit = 200

  /// The text, cut after `limit` scalars with an ellipsis. No more of `text` is read than is shown.
  ///
  /// | scalars | shown as |
  /// |---|---|
  /// | what has a picture; the two joiners; the tags of a flag; emoji that are newer than this program's tables | themselves |
  /// | marks without a picture: soft hyphen, direction marks, word joiner, byte order mark, tags outside of a flag | nothing |
  /// | control characters, line ends, what embeds, overrides or isolates a direction, private use, unassigned | U+FFFD, one for each run |
  public static func clean(_ text: String, limit: Int = limit) -> String {
    var result = String.UnicodeScalarView()
    var (isInFlag, isReplacing) = (false, false)
    for (index, scalar) in text.unicodeScalars.enumerated() {
      guard index < limit else {
        result.append("…")
        break
      }
      let verdict = verdict(on: scalar, isInFlag: isInFlag)
      isInFlag = scalar == blackFlag || isInFlag && isTag(scalar) && scalar != lastTag
      if verdict == .shown { result.append(scalar) }
      if verdict == .replaced, !isReplacing { result.append("\u{FFFD}") }
      if verdict != .dropped { isReplacing = verdict == .replaced }
    }
    return String(result)
  }

  /// Whether a text has nothing that is shown as U+FFFD.
  public static func isHarmless(_ text: String) -> Bool {
    text.unicodeScalars.allSatisfy { verdict(on: $0, isInFlag: true) != .replaced }
  }

  private enum Verdict {
    case shown, dropped, replaced
  }

  private static func verdict(on scalar: Unicode.Scalar, isInFlag: Bool) -> Verdict {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator, .privateUse, .surrogate: return .replaced
    case .unassigned: return isReservedForEmoji(scalar) ? .shown : .replaced
    case .format: break
    default: return .shown
    }
    if isTag(scalar) { return isInFlag ? .shown : .dropped }
    switch scalar.value {
    // Emoji and many scripts need these two joiners.
    case 0x200C, 0x200D: return .shown
    // These embed, override or isolate a direction: the text behind them could be read from the wrong end.
    case 0x202A...0x202E, 0x2066...0x2069: return .replaced
    // Signs of Arabic, Syriac and Kaithi that enclose the digits behind them.
    case 0x0600...0x0605, 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD: return .shown
    default: return scalar.properties.isDefaultIgnorableCodePoint ? .dropped : .replaced
    }
  }

  private static let blackFlag: Unicode.Scalar = "\u{1F3F4}"
  private static let lastTag: Unicode.Scalar = "\u{E007F}"

  /// Behind a black flag, tags spell the part of a country whose flag it is. They have no picture.
  static func isTag(_ scalar: Unicode.Scalar) -> Bool { (0xE0020...0xE007F).contains(scalar.value) }

  /// Code points that Unicode keeps for emoji: one that this program's tables lack is an emoji of a later version.
  public static func isReservedForEmoji(_ scalar: Unicode.Scalar) -> Bool {
    (0x1F000...0x1FAFF).contains(scalar.value) || (0x1FC00...0x1FFFD).contains(scalar.value)
  }
}
