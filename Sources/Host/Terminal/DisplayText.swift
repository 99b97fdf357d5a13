/// Text measured in the columns of a terminal.
public enum DisplayText {
  /// The columns a text takes.
  public static func width(_ text: String) -> Int {
    text.reduce(0) { $0 + width($1) }
  }

  /// The text if it fits, else its beginning with an ellipsis, in at most `width` columns.
  public static func cut(_ text: String, to width: Int) -> String {
    guard self.width(text) > width else { return text }
    guard width > 0 else { return "" }
    var result = ""
    var used = 1
    for character in text {
      used += self.width(character)
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
    for word in text.split(separator: " ") {
      let longer = line.isEmpty ? String(word) : line + " " + word
      if self.width(longer) <= width {
        line = longer
        continue
      }
      if !line.isEmpty { lines.append(line) }
      line = ""
      for character in word {
        if self.width(line) + self.width(character) > width, !line.isEmpty {
          lines.append(line)
          line = ""
        }
        line.append(character)
      }
    }
    return line.isEmpty ? lines : lines + [line]
  }

  /// 2 for the wide characters of East Asia and emoji, 0 for what only joins or combines, else 1.
  private static func width(_ character: Character) -> Int {
    guard let scalar = character.unicodeScalars.first else { return 0 }
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format, .control: return 0
    default: break
    }
    if scalar.properties.isEmojiPresentation || character.unicodeScalars.contains("\u{FE0F}") { return 2 }
    return wide.contains { $0.contains(scalar.value) } ? 2 : 1
  }

  /// The blocks of wide and full-width characters (Unicode Standard Annex 11), in round numbers.
  private static let wide: [ClosedRange<UInt32>] = [
    0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97C, 0xAC00...0xD7A3, 0xF900...0xFAFF,
    0xFE30...0xFE6F,
    0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F900...0x1F9FF, 0x20000...0x3FFFD,
  ]
}
