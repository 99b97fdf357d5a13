/// Makes text from a peer, a file or a program safe to display on one line.
public enum PrintableText {
  /// Maximum number of Unicode scalars that are shown of an untrusted string. Characters are not counted, because one
  /// character may have thousands of combining marks.
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

  /// Whether Unicode reserves the code point for emoji: a reserved one that this program's tables lack is an emoji of a
  /// later version.
  public static func isReservedForEmoji(_ scalar: Unicode.Scalar) -> Bool {
    (0x1F000...0x1FAFF).contains(scalar.value) || (0x1FC00...0x1FFFD).contains(scalar.value)
  }
}

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

/// Suggests the intended word for a misspelt one.
public enum Spelling {
  /// Maximum bytes of a word: a comparison of longer words takes too long.
  private static let longestWord = 40

  /// Returns the candidate nearest to `word`, ignoring case. Nil if the nearest one differs by more than one edit and
  /// also by more than a third of its length.
  public static func nearest(to word: String, among candidates: [String]) -> String? {
    guard word.utf8.count <= longestWord else { return nil }
    let wanted = Array(word.lowercased().utf8)
    let ranked = candidates.map { ($0, distance(wanted, Array($0.lowercased().utf8))) }
    guard let best = ranked.min(by: { $0.1 < $1.1 }), best.1 <= max(1, best.0.utf8.count / 3) else { return nil }
    return best.0
  }

  /// Returns the number of edits that change one word into the other: each inserts, removes or replaces a byte, or
  /// swaps two neighbours.
  private static func distance(_ word: [UInt8], _ candidate: [UInt8]) -> Int {
    var before: [Int] = []
    var above = Array(0...candidate.count)
    for (row, byte) in word.enumerated() {
      var current = [row + 1]
      for (column, other) in candidate.enumerated() {
        var best = min(above[column] + (byte == other ? 0 : 1), above[column + 1] + 1, current[column] + 1)
        if row > 0, column > 0, byte == candidate[column - 1], word[row - 1] == other {
          best = min(best, before[column - 1] + 1)
        }
        current.append(best)
      }
      (before, above) = (above, current)
    }
    return above.last ?? 0
  }
}
