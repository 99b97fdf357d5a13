import Bytes
import Crypto

/// The ID of a record in the spool: 16 random bytes, never reused.
public struct SpoolID: Hashable, Sendable, Comparable, CustomStringConvertible {
  static let size = 16

  let bytes: [UInt8]

  /// Draws a new ID.
  public init(randomFrom random: inout some RandomSource) {
    bytes = random.bytes(Self.size)
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    bytes = Array(try reader.bytes(Self.size))
  }

  /// Parses a `description`; nil for any other text.
  public init?(_ text: some StringProtocol) {
    guard let bytes = try? Hex.decode(text), bytes.count == Self.size, Hex.encode(bytes) == text else { return nil }
    self.bytes = bytes
  }

  /// 32 lower-case hex digits.
  public var description: String { Hex.encode(bytes) }

  public static func < (left: SpoolID, right: SpoolID) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}
