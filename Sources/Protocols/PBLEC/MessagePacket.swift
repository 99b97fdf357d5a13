import Bytes

/// Advertisement of a message.
///
///     off  len   value
///     0    3     02 01 06: Flags for LE only; any other Flags are accepted when received
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
  /// The character `~`, with which every local name of the protocol begins.
  public static let mark = UInt8(ascii: "~")
  /// Value of the Flags we send: LE General Discoverable, BR/EDR Not Supported.
  public static let flags: UInt8 = 0x06

  /// The digit, 0 to 9. It increases by one, modulo 10, with each message of a sender, whatever the text is.
  public let digit: UInt8
  public let text: MessageText

  /// - Parameter digit: the sender's message number, which is reduced modulo 10.
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

/// Text of a message: at most 27 bytes of UTF-8 without control characters, stored inline so that comparisons allocate
/// no memory.
public struct MessageText: Hashable, Sendable {
  /// Text, zero-padded; the last byte holds the length.
  private var storage = SIMD32<UInt8>()

  /// Checks a text to send, of 1 to 24 bytes of UTF-8.
  ///
  /// - Throws: `BroadcastError.empty`, `tooLong` or `controlCharacters`. A text that does not fit is rejected, never
  ///   cut. Facts: pblec.md section 2.
  public init(_ text: String) throws(BroadcastError) {
    let count = text.utf8.count
    guard count > 0 else { throw .empty }
    guard count <= Limits.textBytes else { throw .tooLong(bytes: count) }
    let bytes = Array(text.utf8)
    guard !Self.hasControls(bytes[...]) else { throw .controlCharacters(bytes: count) }
    self.init(unchecked: bytes[...])
  }

  /// Takes a checked text of at most 27 bytes.
  init(unchecked bytes: ArraySlice<UInt8>) {
    for (index, byte) in bytes.prefix(Limits.heardTextBytes).enumerated() { storage[index] = byte }
    storage[31] = UInt8(truncatingIfNeeded: min(bytes.count, Limits.heardTextBytes))
  }

  /// Length in bytes of UTF-8.
  public var count: Int { Int(storage[31]) }

  public var bytes: [UInt8] { (0..<count).map { storage[$0] } }

  /// Text as it was sent. It may contain bidirectional controls, so it must be cleaned before it is displayed.
  public var string: String { String(decoding: bytes, as: UTF8.self) }

  /// Longest prefix of `text` that fits into a message, cut between two code points as in the original. Facts: pblec.md
  /// section 2.
  public static func clipped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      guard result.utf8.count + String(scalar).utf8.count <= Limits.textBytes else { break }
      result.unicodeScalars.append(scalar)
    }
    return result
  }

  /// Whether UTF-8 contains a control character: U+0000 to U+001F, U+007F to U+009F.
  static func hasControls(_ bytes: ArraySlice<UInt8>) -> Bool {
    var previous: UInt8 = 0
    for byte in bytes {
      if byte < 0x20 || byte == 0x7F || previous == 0xC2 && byte < 0xA0 { return true }
      previous = byte
    }
    return false
  }
}

extension MessageText: CustomStringConvertible {
  /// The length of the text only, because message texts must not appear in logs.
  public var description: String { "text of \(count) bytes" }
}
