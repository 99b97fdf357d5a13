import Bytes

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
  /// Type of the fragmented packet.
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
}
