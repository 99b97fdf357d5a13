import Bytes
import Crypto

/// ID of a message, 1 to 255 bytes of UTF-8. Private messages carry it; for public messages each app derives it by its
/// own rule. Facts: bitchat.md sections 5.1 and 5.2.
public struct MessageID: Hashable, Sendable {
  public let text: String

  /// Throws `badValue` for an empty text, and `tooLong` over 255 bytes.
  public init(_ text: String) throws(WireError) {
    guard !text.isEmpty else { throw .badValue("messageID") }
    try Text.check(text, field: "messageID")
    self.text = text
  }

  private init(made text: String) {
    self.text = text
  }

  /// Reads an ID; throws `badValue` if it is not UTF-8, and what the other initializer throws.
  package init(bytes: ArraySlice<UInt8>) throws(WireError) {
    try self.init(Text.read(bytes, field: "messageID"))
  }

  /// Generates the ID of a private message: a random UUID in upper-case letters, as the apps do.
  public init(randomFrom random: inout some RandomSource) {
    var bytes = random.bytes(16)
    bytes[6] = bytes[6] & 0x0F | 0x40
    bytes[8] = bytes[8] & 0x3F | 0x80
    let hex = Hex.encode(bytes).uppercased()
    var text = ""
    for (index, digit) in hex.enumerated() {
      if [8, 12, 16, 20].contains(index) { text += "-" }
      text.append(digit)
    }
    self.text = text
  }

  /// The iOS app's ID of a public message: 32 digits of a SHA-256 over sender, timestamp and trimmed text.
  public static func iOS(sender: PeerID, timestamp: UInt64, text: String) -> MessageID {
    let name = "\(sender)|\(timestamp)|\(trimmed(text))"
    return MessageID(made: Hex.encode(SHA256.hash(Array(name.utf8)).prefix(16)))
  }

  private static func trimmed(_ text: String) -> String {
    let scalars = text.unicodeScalars.drop(while: isBlank)
    guard let last = scalars.lastIndex(where: { !isBlank($0) }) else { return "" }
    return String(scalars[...last])
  }

  /// Whether Foundation counts the scalar as white space or a newline.
  private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x09...0x0D, 0x85: true
    default: [.spaceSeparator, .lineSeparator, .paragraphSeparator].contains(scalar.properties.generalCategory)
    }
  }
}

extension MessageID: CustomStringConvertible {
  public var description: String { text }
}
