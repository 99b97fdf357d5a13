import Bytes

/// `BitchatMessage` in binary form, the chat of dialect S. Facts: bitchat.md section 5.1. Layout:
///
///     1     flags: 01 relayed, 02 private, 04 original sender, 08 recipient's nickname, 10 sender's peer ID, 20 mentions,
///           40 bridged, or a channel where bytes are left for its name
///     8     time, milliseconds since 1970, big endian
///     1+n   ID
///     1+n   sender's nickname
///     2+n   text, its length big endian
///     1+n   original sender, recipient's nickname, sender's peer ID: each if its flag is set
///     1     number of mentions, then 1+n each, if flag 20
///     1+n   channel, if flag 40 and there are bytes left
public struct SeedMessage: WireValue, Hashable, Sendable {
  public var timestamp: UInt64
  public var id: String
  public var sender: String
  /// Text of the message, up to 65,535 bytes.
  public var text: String
  public var isRelayed = false
  public var isPrivate = false
  /// Flag 40: whether the message is bridged, or has a channel.
  public var isBridged = false
  public var originalSender: String?
  public var recipientNickname: String?
  /// Peer ID of the sender as received: normally 16 hexadecimal digits.
  public var senderPeerID: String?
  /// Nicknames that the text mentions; nil without flag 20.
  public var mentions: [String]?
  /// Name of the channel that the message is for; nil without flag 40.
  public var channel: String?

  public init(timestamp: UInt64, id: String, sender: String, text: String) {
    self.timestamp = timestamp
    self.id = id
    self.sender = sender
    self.text = text
  }

  /// Decodes a message. Throws `badValue("flags")` for flag 80, `badValue` for text that is not UTF-8, and `trailing`
  /// if bytes follow.
  public init(reading reader: inout ByteReader) throws(WireError) {
    let flags = try reader.u8()
    guard flags & 0x80 == 0 else { throw .badValue("flags") }
    timestamp = try reader.u64be()
    id = try reader.shortText("id")
    sender = try reader.shortText("sender")
    text = try Text.read(reader.bytes(Int(reader.u16be())), field: "text")
    isRelayed = flags & 0x01 != 0
    isPrivate = flags & 0x02 != 0
    isBridged = flags & 0x40 != 0
    if flags & 0x04 != 0 { originalSender = try reader.shortText("originalSender") }
    if flags & 0x08 != 0 { recipientNickname = try reader.shortText("recipientNickname") }
    if flags & 0x10 != 0 { senderPeerID = try reader.shortText("senderPeerID") }
    if flags & 0x20 != 0 { mentions = try reader.shortTexts("mention") }
    if isBridged, !reader.isAtEnd { channel = try reader.shortText("channel") }
    try reader.finish()
  }

  /// Encodes the message. Texts that exceed their length field are shortened between two scalars.
  public func write(to writer: inout ByteWriter) {
    var flags: UInt8 = 0
    if isRelayed { flags |= 0x01 }
    if isPrivate { flags |= 0x02 }
    if originalSender != nil { flags |= 0x04 }
    if recipientNickname != nil { flags |= 0x08 }
    if senderPeerID != nil { flags |= 0x10 }
    if mentions != nil { flags |= 0x20 }
    if isBridged || channel != nil { flags |= 0x40 }
    writer.u8(flags)
    writer.u64be(timestamp)
    writer.shortText(Self.cut(id))
    writer.shortText(Self.cut(sender))
    let text = Self.cut(text, to: Int(UInt16.max))
    writer.u16be(UInt16(clamping: text.utf8.count))
    writer.append(text.utf8)
    for part in [originalSender, recipientNickname, senderPeerID] {
      if let part { writer.shortText(Self.cut(part)) }
    }
    if let mentions { writer.shortTexts(mentions.map { Self.cut($0) }) }
    if let channel { writer.shortText(Self.cut(channel)) }
  }

  private static func cut(_ text: String, to limit: Int = Limits.shortValueBytes) -> String {
    guard text.utf8.count > limit else { return text }
    var count = 0
    let kept = text.unicodeScalars.prefix { scalar in
      count += UTF8.width(scalar)
      return count <= limit
    }
    return String(kept)
  }
}

extension ByteReader {
  /// Reads text with a length prefix of one byte; throws `badValue` with the field's name if it is not UTF-8.
  package mutating func shortText(_ field: String) throws(WireError) -> String {
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
  package mutating func shortText(_ text: String) {
    u8(UInt8(clamping: text.utf8.count))
    append(text.utf8.prefix(Limits.shortValueBytes))
  }

  /// Writes up to 255 texts with a count prefix of one byte.
  mutating func shortTexts(_ texts: [String]) {
    u8(UInt8(clamping: texts.count))
    for text in texts.prefix(Limits.shortValueBytes) { shortText(text) }
  }
}
