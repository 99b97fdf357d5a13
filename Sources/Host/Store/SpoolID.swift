import Bytes
import Crypto

/// Names a kept credential: 16 random bytes, never used again.
public struct SpoolID: Hashable, Sendable, Comparable, CustomStringConvertible {
  static let size = 16

  let bytes: [UInt8]

  init(randomFrom random: inout some RandomSource) {
    bytes = random.bytes(Self.size)
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    bytes = Array(try reader.bytes(Self.size))
  }

  /// The id that the text is the description of; nil if it is none.
  public init?(_ text: some StringProtocol) {
    guard let bytes = try? Hex.decode(text), bytes.count == Self.size, Hex.encode(bytes) == text else { return nil }
    self.bytes = bytes
  }

  /// 32 hex digits in lower case.
  public var description: String { Hex.encode(bytes) }

  public static func < (left: SpoolID, right: SpoolID) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}
