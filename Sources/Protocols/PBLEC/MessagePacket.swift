import Bytes

/// Advertisement of a message.
///
///     off  len   value
///     0    3     02 01 06: Flags, for a peer that speaks LE alone; others are as good when they come in
///     3    1     1 + N
///     4    1     09: Complete Local Name of N bytes
///     5    1     7E: ~
///     6    1     30 to 39: the digit
///     7    N-2   the text
///
/// Facts: pblec.md section 1.
public struct MessagePacket: Hashable, Sendable {
  /// AD type of a complete local name.
  public static let completeName: UInt8 = 0x09
  /// AD type of a shortened local name.
  public static let shortenedName: UInt8 = 0x08
  /// First byte of every name of the protocol.
  public static let mark = UInt8(ascii: "~")
  /// Value of the Flags we send: LE General Discoverable, BR/EDR Not Supported.
  public static let flags: UInt8 = 0x06

  /// 0 to 9; one more for each message, modulo 10, independent of the text.
  public let digit: UInt8
  public let text: MessageText

  /// - Parameter digit: taken modulo 10.
  public init(digit: UInt8, text: MessageText) {
    (self.digit, self.text) = (digit % 10, text)
  }

  /// The local name: `~`, digit, text.
  public var name: String { "~\(digit)" + text.string }

  /// Advertising data: at most 31 bytes for a text of 24.
  public var bytes: [UInt8] {
    var writer = ByteWriter(capacity: 7 + text.count)
    for byte in [2, 0x01, Self.flags, UInt8(3 + text.count), Self.completeName] { writer.u8(byte) }
    writer.u8(Self.mark)
    writer.u8(UInt8(ascii: "0") + digit)
    writer.append(text.bytes)
    return writer.bytes
  }
}
