import Bytes

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
