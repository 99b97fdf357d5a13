import Bytes

/// Text in a field of a wire structure.
enum Text {
  /// The text; throws `badValue` with the field's name if the bytes are not UTF-8.
  static func read(_ bytes: ArraySlice<UInt8>, field: String) throws(WireError) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .badValue(field) }
    return text
  }

  /// Throws `tooLong` with the field's name if the text has more bytes of UTF-8 than a length of one byte can say.
  static func check(_ text: String, field: String) throws(WireError) {
    guard text.utf8.count <= Limits.shortValueBytes else {
      throw .tooLong(field: field, limit: Limits.shortValueBytes)
    }
  }
}
