import CColumns
import Common
import Glibc

/// Text measured in the columns of a terminal.
public enum DisplayText {
  /// The columns a text takes.
  public static func width(_ text: String) -> Int {
    text.reduce(0) { $0 + width(of: $1) }
  }

  /// The columns of a character: 2 for the wide ones of East Asia and for emoji, 0 for what only joins or combines, else 1;
  /// of scripts whose letters stand beside each other in one character, the sum.
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

  /// The text if it fits, else its beginning with an ellipsis, in at most `width` columns.
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

  /// The text in lines of at most `width` columns, broken between words, and inside a word that is wider than a line.
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

  /// The text as every terminal shows it in the same columns, for a screen whose columns must not move.
  ///
  /// Terminals do not agree on emoji that are put together: some draw one picture, some a picture for each part. Here the first
  /// part stands for all, and in the text's form where its emoji form is only asked for. A mark without a letter below it, and
  /// what the machine has no width for, is U+FFFD; of more than three marks on one letter, three are shown.
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

  /// What has no picture, and does not join a mark to a letter.
  private static func isIgnorable(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.isDefaultIgnorableCodePoint }

  private static func isTag(_ scalar: Unicode.Scalar) -> Bool { (0xE0020...0xE007F).contains(scalar.value) }

  private static func isModifier(_ scalar: Unicode.Scalar) -> Bool { (0x1F3FB...0x1F3FF).contains(scalar.value) }

  private static func isJoined(_ scalars: Character.UnicodeScalarView) -> Bool {
    scalars.contains(joiner) && scalars.contains { $0 != scalars.first && $0.properties.isEmojiPresentation }
  }

  /// As the C library says, because what draws on the terminal counts with it as well; -1 for what it has no width for.
  private static func columns(_ scalar: Unicode.Scalar) -> Int {
    if (0x20..<0x7F).contains(scalar.value) { return 1 }
    guard isUTF8 else { return 1 }
    return Int(earshot_columns(scalar.value))
  }

  /// Whether the C library knows what characters are. It does not before it has a locale of UTF-8, if only for them.
  public static let isUTF8: Bool = {
    setlocale(LC_CTYPE, "")
    func isSet() -> Bool { String(cString: nl_langinfo(nl_item(CODESET))) == "UTF-8" }
    if !isSet() { setlocale(LC_CTYPE, "C.UTF-8") }
    return isSet()
  }()
}
