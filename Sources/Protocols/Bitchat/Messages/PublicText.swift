import Bytes

/// The payload of a public message: text in UTF-8, and nothing else. Facts: bitchat.md section 5.1.
public struct PublicText: Hashable, Sendable {
  /// Up to 60,000 characters, whatever characters the sender chose.
  public let text: String

  /// Throws `tooLong` for more than 60,000 characters.
  public init(_ text: String) throws(WireError) {
    // Bytes are quicker to count, and a text of so few of them cannot have too many characters.
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
