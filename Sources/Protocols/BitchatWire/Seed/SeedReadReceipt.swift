import Bytes

/// Payload of a read receipt in dialect S. Facts: bitchat.md section 16.1. Layout:
///
///     offset  size
///     0       16    UUID of the message
///     16      16    UUID of this receipt
///     32      8     peer ID of the reader
///     40      8     time, milliseconds since 1970, big endian
///     48      1+n   nickname of the reader, behind its length
public struct SeedReadReceipt: WireValue, Hashable, Sendable {
  public let message: MessageUUID
  public let receipt: MessageUUID
  public let reader: PeerID
  public let timestamp: UInt64
  /// Nickname of the reader, up to 255 bytes.
  public let nickname: String

  /// Throws `tooLong` for a nickname over 255 bytes.
  public init(
    message: MessageUUID, receipt: MessageUUID, reader: PeerID, timestamp: UInt64, nickname: String
  ) throws(WireError) {
    try Text.check(nickname, field: "nickname")
    self.message = message
    self.receipt = receipt
    self.reader = reader
    self.timestamp = timestamp
    self.nickname = nickname
  }

  /// Decodes a receipt; throws `trailing` if bytes follow.
  public init(reading reader: inout ByteReader) throws(WireError) {
    message = try MessageUUID(reading: &reader)
    receipt = try MessageUUID(reading: &reader)
    self.reader = try PeerID(reading: &reader)
    timestamp = try reader.u64be()
    nickname = try reader.shortText("nickname")
    try reader.finish()
  }

  public func write(to writer: inout ByteWriter) {
    message.write(to: &writer)
    receipt.write(to: &writer)
    reader.write(to: &writer)
    writer.u64be(timestamp)
    writer.shortText(nickname)
  }
}
