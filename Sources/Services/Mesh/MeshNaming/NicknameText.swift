import Common

/// The text of a nickname: how it is shown, and which nicknames look the same.
public enum NicknameText {
  /// How many Unicode scalars of a nickname are shown.
  public static let limit = 40

  /// The nickname on one line, without anything that a terminal would obey and without blanks at the ends. U+FFFD stands for each
  /// scalar that separates names from other text on screens and in lines: angle brackets, quotation marks, arrows and check marks.
  public static func shown(_ nickname: String) -> String { unreserved(nickname, limit: limit) }

  /// Another text that a peer chose, the name of a file for instance, shown the same way.
  public static func unreserved(_ text: String, limit: Int) -> String {
    words(of: PrintableText.clean(text, limit: limit).unicodeScalars.map { isReserved($0) ? "\u{FFFD}" : $0 })
  }

  /// A sentence that a favourite or verified peer has another nickname.
  ///
  /// - Parameter peer: its ID.
  public static func renamed(_ peer: String, before: String, now: String) -> String {
    "The favourite or verified peer <\(shown(before))> (\(peer)) calls itself <\(shown(now))> now."
  }

  /// Whether this node may be called so: at least one scalar has a picture, and none is shown as U+FFFD. The configuration and D-Bus
  /// have this one rule.
  public static func isUsable(_ nickname: String) -> Bool {
    PrintableText.isHarmless(nickname) && !key(nickname).isEmpty
  }

  /// Whether two nicknames look the same but for case and scalars that show nothing.
  public static func isSame(_ one: String, _ other: String) -> Bool { key(one) == key(other) }

  /// What nicknames that look the same have in common. Empty for a nickname that shows nothing.
  static func key(_ nickname: String) -> String {
    let scalars = shown(nickname).unicodeScalars.filter { !isBlank($0) }
    return words(of: scalars.map(folded)).lowercased()
  }

  /// Whether a nickname could be read as the name of another peer with its digits, as a peer ID, or as a word of the interface. Such a
  /// nickname is always shown with the digits of its own peer.
  ///
  /// - Parameter key: of the nickname.
  static func isMisleading(_ key: String) -> Bool {
    let digits = key.unicodeScalars.filter { $0 != " " && $0 != "-" && $0 != ":" }
    let isHexadecimal = digits.allSatisfy(\.properties.isASCIIHexDigit)
    return key.unicodeScalars.contains("#") || isHexadecimal && (digits.count == 4 || digits.count >= 12)
      || ownWords.contains(key)
  }

  /// What the interface calls this node's user, and all peers.
  private static let ownWords: Set<String> = ["me", "you", "everybody", "everyone", "this node"]

  private static func words(of scalars: some Sequence<Unicode.Scalar>) -> String {
    var view = String.UnicodeScalarView()
    view.append(contentsOf: scalars)
    return String(view).split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  /// The blank pattern of Braille is no white space to Unicode.
  private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.isDefaultIgnorableCodePoint || scalar == "\u{2800}"
  }

  /// Number signs, digits and full-width letters as ASCII: they could make up the digits of another peer.
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

  /// Angle brackets stand around names in lines and sentences. The other characters look like them.
  private static func isAngle(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x3C, 0x3E, 0xAB, 0xBB, 0x02C2, 0x02C3, 0x1438, 0x1433, 0x2039, 0x203A, 0x226A, 0x226B, 0x227A, 0x227B,
      0x22D6...0x22D9, 0x2329, 0x232A, 0x276C...0x2771, 0x27E8...0x27EB, 0x2991...0x2994, 0x29FC, 0x29FD,
      0x3008...0x300B, 0xFE64, 0xFE65, 0xFF1C, 0xFF1E:
      true
    default: false
    }
  }

  /// The blocks of arrows, and the parts of others where there are some: an arrow marks a private message.
  private static func isArrow(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x2190...0x21FF, 0x2794, 0x2798...0x27BE, 0x27F0...0x27FF, 0x2900...0x297F, 0x2B00...0x2B11, 0x2B30...0x2B4F,
      0x2B5A...0x2BB9, 0xFFE9...0xFFEC, 0x1F800...0x1F8FF:
      true
    default: false
    }
  }

  /// A check mark beside a name shows that the peer is verified, and behind a message that it was delivered.
  private static func isCheckMark(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x2611, 0x2705, 0x2713, 0x2714, 0x221A, 0x237B, 0x1F5F8, 0x1F5F9, 0x1FBB1: true
    default: false
    }
  }
}
