import CColumns
import Common
import Glibc

/// Measures and cuts text in terminal columns.
public enum DisplayText {
  /// Number of columns of a text.
  public static func width(_ text: String) -> Int {
    text.reduce(0) { $0 + width(of: $1) }
  }

  /// Number of columns of a character: 2 for wide East Asian characters and emoji, 0 for joiners and combining marks,
  /// otherwise 1. If the code points of a character have separate columns, their sum.
  public static func width(of character: Character) -> Int {
    let scalars = character.unicodeScalars
    guard let first = scalars.first else { return 0 }
    if scalars.count == 1 {
      return columns(first) < 0 && PrintableText.isReservedForEmoji(first) ? 2 : max(0, columns(first))
    }
    if scalars.contains(where: isTag) { return width(of: Character(first)) }
    let isDrawnAsOne = scalars.contains { $0 == emojiForm || isModifier($0) } || isJoined(scalars)
    return isDrawnAsOne && first.properties.isEmoji ? 2 : scalars.reduce(0) { $0 + max(0, columns($1)) }
  }

  /// The text if it fits, otherwise its beginning with an ellipsis, in at most `width` columns.
  public static func cut(_ text: String, to width: Int) -> String {
    guard self.width(text) > width else { return text }
    guard width > 0 else { return "" }
    var result = ""
    var used = 1
    for character in text {
      used += self.width(of: character)
      if used > width { break }
      result.append(character)
    }
    return result + "…"
  }

  /// The text in lines of at most `width` columns, broken between words, or inside a word that is wider than a line.
  public static func wrap(_ text: String, to width: Int) -> [String] {
    guard width > 0 else { return [] }
    var lines: [String] = []
    var line = ""
    var used = 0
    func end() {
      if !line.isEmpty { lines.append(line) }
      (line, used) = ("", 0)
    }
    for word in text.split(separator: " ") {
      let wide = self.width(String(word))
      if line.isEmpty ? wide <= width : used + 1 + wide <= width {
        used += wide + (line.isEmpty ? 0 : 1)
        line += line.isEmpty ? String(word) : " " + word
        continue
      }
      end()
      for character in word {
        let wide = self.width(of: character)
        if used + wide > width { end() }
        line.append(character)
        used += wide
      }
    }
    end()
    return lines
  }

  /// The text, changed so that all terminals show it with the same width, for screens with fixed columns.
  ///
  /// Terminals differ in showing composed emoji: as one glyph, or as one glyph for each part. Here only the first part
  /// is shown, in text form if an emoji form is merely requested. A mark without a base letter, and a code point of
  /// unknown width, becomes U+FFFD. At most three marks per letter are shown.
  public static func settled(_ text: String) -> String {
    var result = ""
    for character in text { result += settled(character) }
    return result
  }

  private static func settled(_ character: Character) -> String {
    let scalars = character.unicodeScalars
    guard let first = scalars.first else { return "" }
    if first.isASCII, scalars.count == 1 { return String(character) }
    guard columns(first) != 0 else { return scalars.allSatisfy(isIgnorable) ? "" : "\u{FFFD}" }
    let isEmoji = first.properties.isEmoji && !first.isASCII
    var result = String.UnicodeScalarView()
    var marks = 0
    for scalar in scalars {
      if isEmoji, scalar == joiner || isTag(scalar) { break }
      if scalar == emojiForm || scalar == textForm || isEmoji && !result.isEmpty && isModifier(scalar) { continue }
      let wide = columns(scalar)
      marks = wide == 0 ? marks + 1 : 0
      if marks <= mostMarks { result.append(wide < 0 ? "\u{FFFD}" : scalar) }
    }
    return String(result)
  }

  private static let mostMarks = 3
  private static let joiner: Unicode.Scalar = "\u{200D}"
  private static let emojiForm: Unicode.Scalar = "\u{FE0F}"
  private static let textForm: Unicode.Scalar = "\u{FE0E}"

  /// Whether the code point is invisible, and does not join a mark to a letter.
  private static func isIgnorable(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.isDefaultIgnorableCodePoint }

  private static func isTag(_ scalar: Unicode.Scalar) -> Bool { (0xE0020...0xE007F).contains(scalar.value) }

  private static func isModifier(_ scalar: Unicode.Scalar) -> Bool { (0x1F3FB...0x1F3FF).contains(scalar.value) }

  private static func isJoined(_ scalars: Character.UnicodeScalarView) -> Bool {
    scalars.contains(joiner) && scalars.contains { $0 != scalars.first && $0.properties.isEmojiPresentation }
  }

  /// The width according to the C library, which ncurses uses as well; -1 if it is unknown.
  private static func columns(_ scalar: Unicode.Scalar) -> Int {
    if (0x20..<0x7F).contains(scalar.value) { return 1 }
    guard isUTF8 else { return 1 }
    return Int(earshot_columns(scalar.value))
  }

  /// Whether the C library uses UTF-8. It needs a UTF-8 locale for character types, which this property sets.
  public static let isUTF8: Bool = {
    setlocale(LC_CTYPE, "")
    func isSet() -> Bool { String(cString: nl_langinfo(nl_item(CODESET))) == "UTF-8" }
    if !isSet() { setlocale(LC_CTYPE, "C.UTF-8") }
    return isSet()
  }()
}

/// Formats a number of bytes for a person: `999 B`, `1.5 KiB`, `12 MiB`; the units are powers of 1024.
public func humanBytes(_ count: some BinaryInteger) -> String {
  let count = UInt64(clamping: count)
  let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
  guard count >= 1024 else { return "\(count) B" }
  // Exponent of the largest unit that does not exceed the number, in steps of 1024.
  let step = (63 - count.leadingZeroBitCount) / 10
  let shift = UInt64(step * 10)
  let whole = count >> shift
  let tenth = ((count & ((1 << shift) - 1)) * 10) >> shift
  return (whole < 10 ? "\(whole).\(tenth)" : "\(whole)") + " \(units[step - 1])"
}
