import Bytes

/// Private message: records of one byte of type and one of length. Facts: bitchat.md section 5.2. Layout:
///
///     00  message ID, UTF-8, 1 to 255 bytes
///     01  text, UTF-8, 0 to 255 bytes
///
/// Both apps reject messages with other records. `PrivateText` splits longer texts.
public struct PrivateMessage: Hashable, Sendable {
  public let id: MessageID
  /// Up to 255 bytes of UTF-8; up to 65,535 if translated.
  public let text: String

  /// Throws `tooLong` for a text over 255 bytes.
  public init(id: MessageID, text: String) throws(WireError) {
    try Text.check(text, field: "text")
    self.id = id
    self.text = text
  }

  /// Takes over a translated message, whose text may exceed 255 bytes.
  package init(translated text: String, id: MessageID) {
    self.id = id
    self.text = text
  }

  /// Decodes a message. Throws `badValue` for an unknown, repeated or missing record.
  package init(reading bytes: ArraySlice<UInt8>) throws(WireError) {
    var id: MessageID?
    var text: String?
    for record in try ShortTLV.all(in: bytes) {
      switch record.type {
      case 0x00 where id == nil: id = try MessageID(bytes: record.value)
      case 0x01 where text == nil: text = try Text.read(record.value, field: "text")
      default: throw .badValue("TLV \(record.type)")
      }
    }
    guard let id else { throw .badValue("messageID") }
    guard let text else { throw .badValue("text") }
    self.id = id
    self.text = text
  }

  package func write(to writer: inout ByteWriter) {
    ShortTLV.write([(0x00, Array(id.text.utf8)), (0x01, Array(text.utf8))], to: &writer)
  }
}

/// Splits a private text into fragments that fit a `PrivateMessage`.
public enum PrivateText {
  /// Returns the text in fragments of at most 255 bytes of UTF-8, in order. Splits between characters; only a character
  /// longer than 255 bytes is split between scalars. An empty text gives one empty fragment.
  ///
  /// Throws `tooLong` over 65,536 bytes.
  public static func pieces(of text: String) throws(WireError) -> [String] {
    guard text.utf8.count <= Limits.privateTextBytes else {
      throw .tooLong(field: "text", limit: Limits.privateTextBytes)
    }
    var pieces: [String] = []
    var piece = ""
    var count = 0
    func add(_ part: String, _ bytes: Int) {
      if count + bytes > Limits.shortValueBytes {
        pieces.append(piece)
        (piece, count) = ("", 0)
      }
      piece += part
      count += bytes
    }
    for character in text {
      let bytes = character.utf8.count
      if bytes <= Limits.shortValueBytes {
        add(String(character), bytes)
      } else {
        for scalar in character.unicodeScalars { add(String(scalar), UTF8.width(scalar)) }
      }
    }
    return pieces + [piece]
  }
}
