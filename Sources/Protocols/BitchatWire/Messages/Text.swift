import Bytes

/// Text in a field of a wire structure.
enum Text {
  /// Decodes UTF-8; throws `badValue` with the field's name if it is malformed.
  package static func read(_ bytes: ArraySlice<UInt8>, field: String) throws(WireError) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .badValue(field) }
    return text
  }

  /// Throws `tooLong` with the field's name if the text exceeds 255 bytes of UTF-8.
  package static func check(_ text: String, field: String) throws(WireError) {
    guard text.utf8.count <= Limits.shortValueBytes else {
      throw .tooLong(field: field, limit: Limits.shortValueBytes)
    }
  }
}

/// Payload of a public message: text in UTF-8. Facts: bitchat.md section 5.1.
public struct PublicText: Hashable, Sendable {
  /// Up to 60,000 characters, not sanitised.
  public let text: String

  /// Throws `tooLong` for more than 60,000 characters.
  public init(_ text: String) throws(WireError) {
    // Counting bytes is faster, and a text cannot have more characters than bytes.
    guard text.utf8.count <= Limits.publicTextCharacters || text.count <= Limits.publicTextCharacters else {
      throw .tooLong(field: "text", limit: Limits.publicTextCharacters)
    }
    self.text = text
  }

  /// Reads a payload; throws `badValue("text")` if it is not UTF-8, and `tooLong` as above.
  public init(payload: [UInt8]) throws(WireError) {
    try self.init(Text.read(payload[...], field: "text"))
  }

  public var payload: [UInt8] { Array(text.utf8) }
}

/// Records with a type and a length of one byte each, used by many payloads.
enum ShortTLV {
  /// Maximum records in one payload. No payload needs more.
  static let maximumCount = 64

  package static func all(in bytes: ArraySlice<UInt8>) throws(WireError) -> [TLV] {
    try TLV.all(in: bytes, length: .u8, limit: Limits.shortValueBytes, maximumCount: maximumCount)
  }

  /// Writes the records. Callers have checked that values have at most 255 bytes.
  package static func write(_ records: [(UInt8, [UInt8])], to writer: inout ByteWriter) {
    for (type, value) in records {
      writer.u8(type)
      writer.u8(UInt8(clamping: value.count))
      writer.append(value.prefix(Limits.shortValueBytes))
    }
  }
}
