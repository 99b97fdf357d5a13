/// Bytes in the alphabet of RFC 4648 section 5, which is safe in a URL and in a file name.
public enum Base64URL {
  /// The bytes as text, without padding.
  public static func encode(_ bytes: some Collection<UInt8>) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count * 4 + 2) / 3)
    var pending: UInt32 = 0
    var bits = 0
    for byte in bytes {
      pending = pending << 8 | UInt32(byte)
      bits += 8
      while bits >= 6 {
        bits -= 6
        text.append(digit(UInt8(truncatingIfNeeded: pending >> bits) & 0x3F))
      }
    }
    if bits > 0 { text.append(digit(UInt8(truncatingIfNeeded: pending << (6 - bits)) & 0x3F)) }
    return String(decoding: text, as: UTF8.self)
  }

  /// Decodes `text`, with its exact padding or with none.
  ///
  /// Each value has exactly one text. The function throws `badValue("base64url")` for a character outside the alphabet,
  /// for wrong padding, and for a last digit whose unused bits are not zero.
  public static func decode(_ text: some StringProtocol) throws(WireError) -> [UInt8] {
    var digits = Array(text.utf8)[...]
    if digits.last == padding {
      guard digits.count.isMultiple(of: 4) else { throw .badValue("base64url") }
      digits.removeLast()
      if digits.last == padding { digits.removeLast() }
    }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(digits.count * 3 / 4)
    var pending: UInt32 = 0
    var bits = 0
    for character in digits {
      guard let value = value(character) else { throw .badValue("base64url") }
      pending = pending << 6 | UInt32(value)
      bits += 6
      if bits >= 8 {
        bits -= 8
        bytes.append(UInt8(truncatingIfNeeded: pending >> bits))
      }
    }
    // With six unused bits, no byte would need the last digit.
    guard bits < 6, pending & (1 << bits - 1) == 0 else { throw .badValue("base64url") }
    return bytes
  }

  private static let padding = UInt8(ascii: "=")

  private static func digit(_ value: UInt8) -> UInt8 {
    switch value {
    case 0..<26: UInt8(ascii: "A") + value
    case 26..<52: UInt8(ascii: "a") + value - 26
    case 52..<62: UInt8(ascii: "0") + value - 52
    case 62: UInt8(ascii: "-")
    default: UInt8(ascii: "_")
    }
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): digit - UInt8(ascii: "A")
    case UInt8(ascii: "a")...UInt8(ascii: "z"): digit - UInt8(ascii: "a") + 26
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0") + 52
    case UInt8(ascii: "-"): 62
    case UInt8(ascii: "_"): 63
    default: nil
    }
  }
}

/// Bytes in the alphabet of RFC 4648 section 4, with padding.
public enum Base64 {
  /// The bytes as text, with padding.
  public static func encode(_ bytes: some Collection<UInt8>) -> String {
    let digits = Base64URL.encode(bytes).utf8.map { byte in
      switch byte {
      case UInt8(ascii: "-"): UInt8(ascii: "+")
      case UInt8(ascii: "_"): UInt8(ascii: "/")
      default: byte
      }
    }
    let padding = [UInt8](repeating: UInt8(ascii: "="), count: (3 - bytes.count % 3) % 3)
    return String(decoding: digits + padding, as: UTF8.self)
  }

  /// Decodes `text` with its exact padding. Throws `badValue("base64")` for anything else; each value has exactly one
  /// text.
  public static func decode(_ text: some StringProtocol) throws(WireError) -> [UInt8] {
    guard text.utf8.count.isMultiple(of: 4) else { throw .badValue("base64") }
    var digits: [UInt8] = []
    digits.reserveCapacity(text.utf8.count)
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "-"), UInt8(ascii: "_"): throw .badValue("base64")
      case UInt8(ascii: "+"): digits.append(UInt8(ascii: "-"))
      case UInt8(ascii: "/"): digits.append(UInt8(ascii: "_"))
      default: digits.append(byte)
      }
    }
    do throws(WireError) {
      return try Base64URL.decode(String(decoding: digits, as: UTF8.self))
    } catch {
      throw .badValue("base64")
    }
  }
}

/// Bytes as hexadecimal digits, two for each byte.
public enum Hex {
  /// Returns the bytes as lower-case hexadecimal digits.
  public static func encode(_ bytes: some Sequence<UInt8>) -> String {
    var digits: [UInt8] = []
    digits.reserveCapacity(2 * bytes.underestimatedCount)
    for byte in bytes {
      digits.append(digit(byte >> 4))
      digits.append(digit(byte & 0xF))
    }
    return String(decoding: digits, as: UTF8.self)
  }

  /// Decodes hexadecimal digits of either case. Throws `badValue("hex")` for an odd number of digits, and for any other
  /// character, including spaces.
  public static func decode(_ text: some StringProtocol) throws(WireError) -> [UInt8] {
    let digits = Array(text.utf8)
    guard digits.count.isMultiple(of: 2) else { throw .badValue("hex") }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(digits.count / 2)
    for index in stride(from: 0, to: digits.count, by: 2) {
      guard let high = value(digits[index]), let low = value(digits[index + 1]) else { throw .badValue("hex") }
      bytes.append(high << 4 | low)
    }
    return bytes
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
  }

  private static func value(_ digit: UInt8) -> UInt8? {
    switch digit {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): digit - UInt8(ascii: "A") + 10
    default: nil
    }
  }
}

/// Text in the query of a URI (RFC 3986).
public enum PercentEncoding {
  /// Encodes everything except RFC 3986's unreserved characters: decoders disagree about "+".
  public static func encode(_ text: String) -> String {
    text.utf8.reduce(into: "") { out, byte in
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        out.unicodeScalars.append(Unicode.Scalar(byte))
      default: out += "%" + Hex.encode([byte]).uppercased()
      }
    }
  }

  /// Decodes `text`; nil if a "%" is not followed by two hexadecimal digits, or if the text is not UTF-8. A "+" is not
  /// changed.
  public static func decode(_ text: ArraySlice<UInt8>) -> String? {
    var decoded: [UInt8] = []
    var unread = text
    while let byte = unread.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        decoded.append(byte)
        continue
      }
      let digits = String(decoding: unread.prefix(2), as: UTF8.self)
      guard digits.utf8.count == 2, let escaped = try? Hex.decode(digits) else { return nil }
      decoded += escaped
      unread = unread.dropFirst(2)
    }
    return String(validating: decoded, as: UTF8.self)
  }
}
