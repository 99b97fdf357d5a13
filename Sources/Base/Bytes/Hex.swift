/// Bytes as hexadecimal digits, two for each byte.
public enum Hex {
  /// The bytes in lower-case digits.
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
