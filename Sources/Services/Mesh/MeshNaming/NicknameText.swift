import Common

/// Text of nicknames: display, and comparison by appearance.
public enum NicknameText {
  /// Maximum displayed Unicode scalars of a nickname.
  public static let limit = 40

  /// Returns the nickname on one line, without control characters and without white space at the ends. U+FFFD replaces
  /// scalars that separate names from other text: angle brackets, quotation marks, arrows and check marks.
  public static func shown(_ nickname: String) -> String { unreserved(nickname, limit: limit) }

  /// Sanitises another text of a peer, such as a file name, in the same way.
  public static func unreserved(_ text: String, limit: Int) -> String {
    words(of: PrintableText.clean(text, limit: limit).unicodeScalars.map { isReserved($0) ? "\u{FFFD}" : $0 })
  }

  /// Sentence about the new nickname of a favourite or verified peer.
  ///
  /// - Parameter peer: ID of the peer.
  public static func renamed(_ peer: String, before: String, now: String) -> String {
    "The favourite or verified peer <\(shown(before))> (\(peer)) calls itself <\(shown(now))> now."
  }

  /// Whether this node may use the nickname: at least one scalar is visible, and none is shown as U+FFFD. Configuration
  /// and D-Bus share this rule.
  public static func isUsable(_ nickname: String) -> Bool {
    PrintableText.isHarmless(nickname) && !key(nickname).isEmpty
  }

  /// Whether two nicknames look the same, regardless of case and invisible scalars.
  public static func isSame(_ one: String, _ other: String) -> Bool { key(one) == key(other) }

  /// Comparison key, equal for nicknames that look the same. Empty for an invisible nickname.
  static func key(_ nickname: String) -> String {
    let scalars = shown(nickname).unicodeScalars.filter { !isBlank($0) }
    return words(of: scalars.map(folded)).lowercased()
  }

  /// Whether a nickname could be mistaken for another peer's name with digits, a peer ID, or a word of the interface.
  /// Such a nickname is always shown with digits of its own peer.
  ///
  /// - Parameter key: key of the nickname.
  static func isMisleading(_ key: String) -> Bool {
    let digits = key.unicodeScalars.filter { $0 != " " && $0 != "-" && $0 != ":" }
    let isHexadecimal = digits.allSatisfy(\.properties.isASCIIHexDigit)
    return key.unicodeScalars.contains("#") || isHexadecimal && (digits.count == 4 || digits.count >= 12)
      || ownWords.contains(key)
  }

  /// Words of the interface for this node's user and for all peers.
  private static let ownWords: Set<String> = ["me", "you", "everybody", "everyone", "this node"]

  private static func words(of scalars: some Sequence<Unicode.Scalar>) -> String {
    var view = String.UnicodeScalarView()
    view.append(contentsOf: scalars)
    return String(view).split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  /// Whether the scalar is invisible: ignorable by default, or the blank Braille pattern, which is not white space in
  /// Unicode.
  private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.isDefaultIgnorableCodePoint || scalar == "\u{2800}"
  }

  /// Maps number signs, digits and full-width letters to ASCII, because they could imitate the digits of another peer.
  private static func folded(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
    switch scalar.value {
    case 0x266F, 0x22D5, 0x29E3, 0x2317, 0xFE5F: return "#"
    case 0xFF01...0xFF5E: return Unicode.Scalar(scalar.value - 0xFEE0) ?? scalar
    default:
      guard scalar.properties.numericType == .decimal, let value = scalar.properties.numericValue else { return scalar }
      return Unicode.Scalar(UInt32(0x30 + value)) ?? scalar
    }
  }

  private static func isReserved(_ scalar: Unicode.Scalar) -> Bool {
    scalar.value == 0x22 || isAngle(scalar) || isArrow(scalar) || isCheckMark(scalar)
  }

  /// Whether the scalar is an angle bracket, which surrounds names in lines and sentences, or looks like one.
  private static func isAngle(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x3C, 0x3E, 0xAB, 0xBB, 0x02C2, 0x02C3, 0x1438, 0x1433, 0x2039, 0x203A, 0x226A, 0x226B, 0x227A, 0x227B,
      0x22D6...0x22D9, 0x2329, 0x232A, 0x276C...0x2771, 0x27E8...0x27EB, 0x2991...0x2994, 0x29FC, 0x29FD,
      0x3008...0x300B, 0xFE64, 0xFE65, 0xFF1C, 0xFF1E:
      true
    default: false
    }
  }

  /// Whether the scalar is an arrow: of the arrow blocks or another block. An arrow marks a private message.
  private static func isArrow(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x2190...0x21FF, 0x2794, 0x2798...0x27BE, 0x27F0...0x27FF, 0x2900...0x297F, 0x2B00...0x2B11, 0x2B30...0x2B4F,
      0x2B5A...0x2BB9, 0xFFE9...0xFFEC, 0x1F800...0x1F8FF:
      true
    default: false
    }
  }

  /// Whether the scalar is a check mark, which marks verified peers and delivered messages.
  private static func isCheckMark(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x2611, 0x2705, 0x2713, 0x2714, 0x221A, 0x237B, 0x1F5F8, 0x1F5F9, 0x1FBB1: true
    default: false
    }
  }
}
