import Bytes

/// Private message: records of one byte of type and one of length. Facts: bitchat.md section 5.2. Layout:
///
///     00  message ID, UTF-8, 1 to 255 bytes
///     01  text, UTF-8, 0 to 255 bytes
///
/// Both apps reject messages with other records. `PrivateText` splits longer texts.
public struct PrivateMessage: Hashable, Sendable {
  public let id: MessageID
  /// Up to 255 bytes of UTF-8; up to 65,535 in dialect S.
  public let text: String

  /// Throws `tooLong` for a text over 255 bytes.
  public init(id: MessageID, text: String) throws(WireError) {
    try Text.check(text, field: "text")
    self.id = id
    self.text = text
  }

  /// Converts a message of dialect S, whose text may have 65,535 bytes. Throws the errors of `MessageID.init`.
  init(ofSeed message: SeedMessage) throws(WireError) {
    id = try MessageID(message.id)
    text = message.text
  }

  /// Decodes a message. Throws `badValue` for an unknown, repeated or missing record.
  init(reading bytes: ArraySlice<UInt8>) throws(WireError) {
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

  func write(to writer: inout ByteWriter) {
    ShortTLV.write([(0x00, Array(id.text.utf8)), (0x01, Array(text.utf8))], to: &writer)
  }
}
