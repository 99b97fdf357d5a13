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
