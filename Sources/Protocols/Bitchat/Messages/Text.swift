import Bytes

/// Text in a field of a wire structure.
enum Text {
  /// Decodes UTF-8; throws `badValue` with the field's name if it is malformed.
  static func read(_ bytes: ArraySlice<UInt8>, field: String) throws(WireError) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .badValue(field) }
    return text
  }

  /// Throws `tooLong` with the field's name if the text exceeds 255 bytes of UTF-8.
  static func check(_ text: String, field: String) throws(WireError) {
    guard text.utf8.count <= Limits.shortValueBytes else {
      throw .tooLong(field: field, limit: Limits.shortValueBytes)
    }
  }
}
