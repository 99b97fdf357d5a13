import Bytes

/// A controller's buffers for LE data.
public struct LEBuffers: Hashable, Sendable {
  /// Maximum bytes of one packet.
  public var length: Int
  /// Number of packets that the controller can store.
  public var count: Int

  /// The minimum of the specification (Core 5.4 Vol 4 Part E 7.8.2), and one packet.
  public static let least = LEBuffers(length: 27, count: 1)
  /// Upper limits of accepted values. Two packets of this length suffice for the longest value.
  static let most = LEBuffers(length: 1024, count: 64)

  public init(length: Int, count: Int) {
    self.length = length
    self.count = count
  }

  /// The opcode of LE Read Buffer Size.
  public static let opcode: UInt16 = 0x2002
  /// LE Read Buffer Size as a packet of type 1, a command without parameters.
  static let question: [UInt8] = [0x01, 0x02, 0x20, 0x00]

  /// Decodes the return parameters of LE Read Buffer Size; nil if LE has no separate buffers, or if the values are
  /// invalid.
  ///
  /// | offset | size | field |
  /// | --- | --- | --- |
  /// | 0 | 1 | status |
  /// | 1 | 2 + 1 | bytes of a packet, number of packets |
  static func answer(reading reader: inout ByteReader) throws(WireError) -> LEBuffers? {
    guard try reader.u8() == 0 else { throw .badValue("status") }
    return LEBuffers(length: Int(try reader.u16le()), count: Int(try reader.u8())).sane
  }

  /// The request of HCIGETDEVINFO about `index`. Bytes 44 and 46 of the answer begin the size and the number of ACL
  /// packets.
  static func deviceQuestion(_ index: UInt16) -> [UInt8] {
    [UInt8(truncatingIfNeeded: index), UInt8(truncatingIfNeeded: index >> 8)] + [UInt8](repeating: 0, count: 94)
  }

  /// The buffers for all data, if LE has no separate buffers.
  static func shared(reading bytes: [UInt8]) throws(WireError) -> LEBuffers? {
    var reader = ByteReader(bytes)
    _ = try reader.bytes(44)
    return LEBuffers(length: Int(try reader.u16le()), count: Int(try reader.u16le())).sane
  }

  /// These buffer sizes, limited to `most`; nil if they are below `least`.
  private var sane: LEBuffers? {
    guard length >= Self.least.length, count > 0 else { return nil }
    return LEBuffers(length: min(length, Self.most.length), count: min(count, Self.most.count))
  }
}
