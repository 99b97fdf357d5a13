import Bytes
import Crypto

/// Identifies the fragments of one packet, together with sender and type: eight random bytes. Facts: bitchat.md section
/// 7.
public struct FragmentID: WireValue, Hashable, Sendable {
  public static let size = 8

  public let rawValue: UInt64

  public init(rawValue: UInt64) {
    self.rawValue = rawValue
  }

  public init(randomFrom random: inout some RandomSource) {
    rawValue = random.bytes(Self.size).reduce(0) { $0 << 8 | UInt64($1) }
  }

  public init(reading reader: inout ByteReader) throws(WireError) {
    rawValue = try reader.u64be()
  }

  public func write(to writer: inout ByteWriter) { writer.u64be(rawValue) }
}

extension FragmentID: CustomStringConvertible {
  /// 16 lower-case hexadecimal digits.
  public var description: String { Hex.encode(bytes) }
}

extension FragmentID {
  /// Fragment ID in an encoded packet; nil if the packet is not a fragment.
  public init?(ofPacket bytes: [UInt8]) {
    guard let head = GossipArchive.Item.fragmentHead(in: bytes) else { return nil }
    self = head.id
  }
}
