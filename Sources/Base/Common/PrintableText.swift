/// Makes text from a peer, a file or a program safe to display on one line.
public enum PrintableText {
  /// Maximum Unicode scalars of an untrusted string that are shown. The limit counts scalars, not characters, because
  /// one character may have thousands of combining marks.
  public static let limit = 200

  /// The text, cut after `limit` scalars with an ellipsis. The function reads no more of `text` than it shows.
  ///
  /// | scalars | shown as |
  /// |---|---|
  /// | visible scalars; the two joiners; the tags of a flag; emoji that are newer than this program's tables | themselves |
  /// | invisible marks: soft hyphen, direction marks, word joiner, byte order mark, tags outside of a flag | nothing |
  /// | control characters, line ends, direction embeddings, overrides and isolates, private use, unassigned | U+FFFD, one for each run |
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

  /// Whether the text contains no scalar that is shown as U+FFFD.
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
    // These embed, override or isolate a direction: a person could read the text after them in the wrong order.
    case 0x202A...0x202E, 0x2066...0x2069: return .replaced
    // Signs of Arabic, Syriac and Kaithi that enclose the digits after them.
    case 0x0600...0x0605, 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD: return .shown
    default: return scalar.properties.isDefaultIgnorableCodePoint ? .dropped : .replaced
    }
  }

  private static let blackFlag: Unicode.Scalar = "\u{1F3F4}"
  private static let lastTag: Unicode.Scalar = "\u{E007F}"

  /// After a black flag, tags spell the region whose flag it is. They have no glyph.
  static func isTag(_ scalar: Unicode.Scalar) -> Bool { (0xE0020...0xE007F).contains(scalar.value) }

  /// Code points that Unicode reserves for emoji: one that this program's tables lack is an emoji of a later version.
  public static func isReservedForEmoji(_ scalar: Unicode.Scalar) -> Bool {
    (0x1F000...0x1FAFF).contains(scalar.value) || (0x1FC00...0x1FFFD).contains(scalar.value)
  }
}
