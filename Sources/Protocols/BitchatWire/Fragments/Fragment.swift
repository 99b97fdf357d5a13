import Bytes
import Crypto

/// The payload of a fragment: a slice of an encoded packet. Facts: bitchat.md section 7. Layout:
///
///     offset  size
///     0       8     fragment ID, the same for all fragments of a packet
///     8       2     index, big endian, from 0
///     10      2     number of fragments, big endian, 1 to 10,000
///     12      1     type of the packet
///     13            slice
public struct Fragment: WireValue, Hashable, Sendable {
  public static let headerBytes = 13

  public let id: FragmentID
  public let index: UInt16
  public let total: UInt16
  /// Type of the packet that was cut into fragments.
  public let type: MessageType
  public let slice: [UInt8]

  /// Throws `badValue("total")` for zero, `tooLong` for more than 10,000 fragments, and `badValue("index")` for an
  /// index not below `total`.
  public init(id: FragmentID, index: UInt16, total: UInt16, type: MessageType, slice: [UInt8]) throws(WireError) {
    guard total > 0 else { throw .badValue("total") }
    guard total <= Limits.fragments else { throw .tooLong(field: "fragments", limit: Limits.fragments) }
    guard index < total else { throw .badValue("index") }
    self.id = id
    self.index = index
    self.total = total
    self.type = type
    self.slice = slice
  }

  /// Reads a fragment, to the end of the payload.
  public init(reading reader: inout ByteReader) throws(WireError) {
    try self.init(
      id: FragmentID(reading: &reader), index: reader.u16be(), total: reader.u16be(),
      type: MessageType(rawValue: reader.u8()), slice: Array(reader.rest()))
  }

  public func write(to writer: inout ByteWriter) {
    id.write(to: &writer)
    writer.u16be(index)
    writer.u16be(total)
    writer.u8(type.rawValue)
    writer.append(slice)
  }

  /// Fragment ID, and type of the fragmented packet.
  package typealias Head = (id: FragmentID, type: MessageType)

  /// Returns ID and packet type of an encoded fragment; nil for any other packet.
  package static func head(of bytes: [UInt8]) -> Head? {
    guard let view = try? PacketView(bytes), view.type == .fragment else { return nil }
    let isPlain = !view.flags.contains(.compressed)
    let section = isPlain ? Array(view.section.prefix(headerBytes)) : (try? Packet(view))?.payload ?? []
    guard let fragment = try? Fragment(reading: Array(section.prefix(headerBytes))) else { return nil }
    return (fragment.id, fragment.type)
  }
}

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
  /// The ID as 16 lower-case hexadecimal digits.
  public var description: String { Hex.encode(bytes) }
}

extension FragmentID {
  /// Fragment ID in an encoded packet; nil if the packet is not a fragment.
  public init?(ofPacket bytes: [UInt8]) {
    guard let head = Fragment.head(of: bytes) else { return nil }
    self = head.id
  }
}

/// Identifies the fragments of one packet. Fragments with a different total belong to a different packet.
public struct FragmentSetID: Hashable, Sendable {
  package let sender: PeerID
  package let id: FragmentID
  package let type: MessageType
  package let total: UInt16

  package init(sender: PeerID, id: FragmentID, type: MessageType, total: UInt16) {
    (self.sender, self.id, self.type, self.total) = (sender, id, type, total)
  }
}

extension FragmentSetID: Comparable {
  public static func < (left: Self, right: Self) -> Bool {
    (left.sender, left.id.rawValue, left.type.rawValue, left.total)
      < (right.sender, right.id.rawValue, right.type.rawValue, right.total)
  }
}

/// Identifies a fragment in confirmations: ID plus index, in one number.
package struct FragmentMark: Hashable, Sendable {
  package let rawValue: UInt64

  package init(_ id: FragmentID, index: Int) { rawValue = id.rawValue &+ UInt64(index) }

  /// Mark of a fragment with a TTL above 0 of a file or of a Noise message, which may be a file; nil for any other
  /// packet.
  package init?(_ view: PacketView) {
    guard view.type == .fragment, view.timeToLive > 0, !view.flags.contains(.compressed) else { return nil }
    guard let head = try? Fragment(reading: Array(view.section.prefix(Fragment.headerBytes))),
      head.type == .fileTransfer || head.type == .noiseEncrypted
    else { return nil }
    self.init(head.id, index: Int(head.index))
  }
}
