/// The characters that a D-Bus string may contain.
///
/// D-Bus has no U+0000. Its specification allows noncharacters (U+FFFE, U+FFFF, the last two code points of every other
/// plane, and U+FDD0 to U+FDEF). However, sd-bus refuses a whole message that contains one, so its clients lose the
/// answer. Both are treated alike: replies, errors and signals of this process carry U+FFFD instead, and a call with
/// such a text is refused.
public enum BusText {
  /// The first code point of a text that is not allowed in a D-Bus string, formatted as `U+FFFE`; nil if all are
  /// allowed.
  ///
  /// - Parameter utf8: valid UTF-8.
  public static func firstRefused(in utf8: some Collection<UInt8>) -> String? {
    // The last three bytes of the text that were read, the latest first.
    var (one, two, three): (UInt8, UInt8, UInt8) = (0, 0, 0)
    for byte in utf8 {
      switch byte {
      case 0: return name(0)
      case 0x90...0xAF where two == 0xEF && one == 0xB7: return name(0xFDC0 + UInt32(byte & 0x3F))
      default: if byte >= 0xBE, one == 0xBF, let found = noncharacter(byte, two, three) { return name(found) }
      }
      (one, two, three) = (byte, one, two)
    }
    return nil
  }

  /// U+nFFFE or U+nFFFF, encoded as `EF BF BE` or `F? ?F BF BE`, with a final BF for the second; nil for other bytes.
  private static func noncharacter(_ last: UInt8, _ before: UInt8, _ first: UInt8) -> UInt32? {
    let value = UInt32(last & 1) | 0xFFFE
    if before == 0xEF { return value }
    guard (0xF0...0xF4).contains(first), (0x80...0xBF).contains(before), before & 0x0F == 0x0F else { return nil }
    let plane = UInt32(first & 7) << 2 | UInt32(before & 0x30) >> 4
    return plane << 16 | value
  }

  private static func name(_ value: UInt32) -> String {
    let digits = String(value, radix: 16, uppercase: true)
    return "U+" + String(repeating: "0", count: max(0, 4 - digits.count)) + digits
  }

  /// Whether the text is allowed in a D-Bus string.
  static func isSendable(_ text: String) -> Bool { firstRefused(in: text.utf8) == nil }

  /// The text with U+FFFD instead of each code point that is not allowed in a D-Bus string.
  static func sendable(_ text: String) -> String {
    guard !isSendable(text) else { return text }
    var view = String.UnicodeScalarView()
    for scalar in text.unicodeScalars { view.append(isRefused(scalar) ? "\u{FFFD}" : scalar) }
    return String(view)
  }

  private static func isRefused(_ scalar: Unicode.Scalar) -> Bool {
    scalar == "\0" || scalar.properties.isNoncharacterCodePoint
  }
}

extension DBusValue {
  /// Whether every text in the value is allowed in D-Bus.
  var hasSendableTexts: Bool {
    switch self {
    case .string(let text): BusText.isSendable(text)
    case .array(_, let elements), .structure(let elements): elements.allSatisfy(\.hasSendableTexts)
    case .dictionary(_, _, let entries):
      entries.allSatisfy { $0.key.hasSendableTexts && $0.value.hasSendableTexts }
    case .variant(let inner): inner.hasSendableTexts
    default: true
    }
  }

  /// The value with U+FFFD instead of each code point that is not allowed in a D-Bus string.
  var sendable: DBusValue {
    switch self {
    case .string(let text): .string(BusText.sendable(text))
    case .array(let element, let elements): .array(of: element, elements.map(\.sendable))
    case .structure(let members): .structure(members.map(\.sendable))
    case .dictionary(let key, let value, let entries):
      .dictionary(key: key, value: value, entries.map { DBusEntry($0.key.sendable, $0.value.sendable) })
    case .variant(let inner): .variant(inner.sendable)
    default: self
    }
  }
}
