/// Checks of text that is not decoded yet.
public enum UTF8Text {
  /// Whether the bytes are UTF-8 (RFC 3629): no overlong form, no surrogate, nothing above U+10FFFF. The check copies
  /// nothing, unlike `String(validating:as:)`.
  public static func isValid(_ bytes: [UInt8]) -> Bool {
    bytes.withUnsafeBytes { wholeCharacters(in: $0) == bytes.count }
  }

  /// Number of bytes without a truncated character at the end; nil if the bytes before it are not UTF-8. The function
  /// copies nothing.
  public static func wholeCharacters(in bytes: ArraySlice<UInt8>) -> Int? {
    bytes.withUnsafeBytes { wholeCharacters(in: $0) }
  }

  private static func wholeCharacters(in bytes: UnsafeRawBufferPointer) -> Int? {
    var index = 0
    while index < bytes.count {
      if index + 8 <= bytes.count,
        bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self) & 0x8080_8080_8080_8080 == 0
      {
        index += 8
        continue
      }
      guard let length = length(of: bytes[index...]) else { return nil }
      guard index + length <= bytes.count else { return index }
      index += length
    }
    return index
  }

  /// Number of bytes of the first character, including missing bytes of a truncated one; nil if the bytes do not begin
  /// a character.
  private static func length(of bytes: Slice<UnsafeRawBufferPointer>) -> Int? {
    let first = bytes[bytes.startIndex]
    // The range of the second byte excludes overlong forms, surrogates, and code points above U+10FFFF.
    let (count, second): (Int, ClosedRange<UInt8>)
    switch first {
    case 0x00...0x7F: return 1
    case 0xC2...0xDF: (count, second) = (2, 0x80...0xBF)
    case 0xE0: (count, second) = (3, 0xA0...0xBF)
    case 0xE1...0xEC, 0xEE...0xEF: (count, second) = (3, 0x80...0xBF)
    case 0xED: (count, second) = (3, 0x80...0x9F)
    case 0xF0: (count, second) = (4, 0x90...0xBF)
    case 0xF1...0xF3: (count, second) = (4, 0x80...0xBF)
    case 0xF4: (count, second) = (4, 0x80...0x8F)
    default: return nil
    }
    guard bytes.count > 1 else { return count }
    guard second.contains(bytes[bytes.startIndex + 1]) else { return nil }
    for index in 2..<max(2, min(count, bytes.count)) where bytes[bytes.startIndex + index] & 0xC0 != 0x80 { return nil }
    return count
  }
}
