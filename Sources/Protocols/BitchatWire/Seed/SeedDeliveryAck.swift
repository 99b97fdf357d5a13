import Bytes

/// Payload of a delivery receipt in dialect S. Facts: bitchat.md section 16.1. Layout:
///
///     offset  size
///     0       16    UUID of the message
///     16      16    UUID of this acknowledgement
///     32      8     peer ID of the recipient
///     40      1     hops
///     41      8     time, milliseconds since 1970, big endian
///     49      1+n   nickname of the recipient, with a length prefix
public struct SeedDeliveryAck: WireValue, Hashable, Sendable {
  public let message: MessageUUID
  public let ack: MessageUUID
  public let recipient: PeerID
  public let hops: UInt8
  public let timestamp: UInt64
  /// Nickname of the recipient, up to 255 bytes.
  public let nickname: String

  /// Throws `tooLong` for a nickname over 255 bytes.
  public init(
    message: MessageUUID, ack: MessageUUID, recipient: PeerID, hops: UInt8, timestamp: UInt64, nickname: String
  ) throws(WireError) {
    try Text.check(nickname, field: "nickname")
    self.message = message
    self.ack = ack
    self.recipient = recipient
    self.hops = hops
    self.timestamp = timestamp
    self.nickname = nickname
  }

  /// Decodes an acknowledgement; throws `trailing` if bytes follow.
  public init(reading reader: inout ByteReader) throws(WireError) {
    message = try MessageUUID(reading: &reader)
    ack = try MessageUUID(reading: &reader)
    recipient = try PeerID(reading: &reader)
    hops = try reader.u8()
    timestamp = try reader.u64be()
    nickname = try reader.shortText("nickname")
    try reader.finish()
  }

  public func write(to writer: inout ByteWriter) {
    message.write(to: &writer)
    ack.write(to: &writer)
    recipient.write(to: &writer)
    writer.u8(hops)
    writer.u64be(timestamp)
    writer.shortText(nickname)
  }
}
