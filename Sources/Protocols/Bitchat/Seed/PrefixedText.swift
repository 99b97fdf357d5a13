import Bytes

extension ByteReader {
  /// Reads text with a length prefix of one byte; throws `badValue` with the field's name if it is not UTF-8.
  mutating func shortText(_ field: String) throws(WireError) -> String {
    try Text.read(bytes(Int(u8())), field: field)
  }

  /// Reads texts with a count prefix of one byte.
  mutating func shortTexts(_ field: String) throws(WireError) -> [String] {
    var texts: [String] = []
    for _ in 0..<(try u8()) { texts.append(try shortText(field)) }
    return texts
  }
}

extension ByteWriter {
  /// Writes text with a length prefix of one byte. Callers have checked that it has at most 255 bytes.
  mutating func shortText(_ text: String) {
    u8(UInt8(clamping: text.utf8.count))
    append(text.utf8.prefix(Limits.shortValueBytes))
  }

  /// Writes up to 255 texts with a count prefix of one byte.
  mutating func shortTexts(_ texts: [String]) {
    u8(UInt8(clamping: texts.count))
    for text in texts.prefix(Limits.shortValueBytes) { shortText(text) }
  }
}
