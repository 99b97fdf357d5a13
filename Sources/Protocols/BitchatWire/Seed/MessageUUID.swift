import Bytes
import Crypto

/// UUID in the acknowledgements of dialect S: 16 bytes. The text has upper-case letters.
public struct MessageUUID: WireValue, Hashable, Sendable {
  public static let size = 16

  /// The 16 bytes of the UUID.
  public let bytes: [UInt8]

  public init(reading reader: inout ByteReader) throws(WireError) {
    bytes = Array(try reader.bytes(Self.size))
  }

  /// Reads 32 hexadecimal digits, with or without dashes; throws `badValue("UUID")` for anything else.
  public init(text: String) throws(WireError) {
    guard let bytes = try? Hex.decode(text.filter { $0 != "-" }), bytes.count == Self.size else {
      throw .badValue("UUID")
    }
    self.bytes = bytes
  }

  /// Generates a random UUID for a new message.
  package init(randomFrom random: inout some RandomSource) {
    self.init(marking: random.bytes(Self.size))
  }

  /// Derives the UUID of a public packet's message; deterministic.
  package init(packet: PacketID) {
    self.init(marking: packet.bytes)
  }

  /// Sets the version and variant bits of a random UUID in 16 bytes.
  private init(marking bytes: [UInt8]) {
    var bytes = bytes
    bytes[6] = bytes[6] & 0x0F | 0x40
    bytes[8] = bytes[8] & 0x3F | 0x80
    self.bytes = bytes
  }

  public func write(to writer: inout ByteWriter) { writer.append(bytes) }
}

extension MessageUUID: CustomStringConvertible {
  public var description: String {
    let digits = Array(Hex.encode(bytes).uppercased())
    return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
  }
}
