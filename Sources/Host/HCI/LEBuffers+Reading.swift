import Bytes

extension LEBuffers {
  /// LE Read Buffer Size.
  static let opcode: UInt16 = 0x2002
  /// As a packet of type 1, a command without parameters.
  static let question: [UInt8] = [0x01, 0x02, 0x20, 0x00]

  /// The answer, a packet of type 4; nil where the controller has no buffers of its own for LE.
  ///
  /// | offset | size | field |
  /// | --- | --- | --- |
  /// | 0 | 1 + 1 + 1 | packet type 4, event 0x0E, length |
  /// | 3 | 1 + 2 | commands it takes, opcode |
  /// | 6 | 1 | status |
  /// | 7 | 2 + 1 | bytes of a packet, how many packets |
  static func answer(reading bytes: [UInt8]) throws(WireError) -> LEBuffers? {
    var reader = ByteReader(bytes)
    guard try reader.u8() == 0x04, try reader.u8() == completeEvent else { throw .badValue("event") }
    _ = try reader.u16be()
    guard try reader.u16le() == opcode else { throw .badValue("opcode") }
    guard try reader.u8() == 0 else { throw .badValue("status") }
    return LEBuffers(length: Int(try reader.u16le()), count: Int(try reader.u8())).sane
  }

  /// Number Of Completed Packets, a packet of type 4: how many of `link` the controller has got rid of.
  ///
  /// | offset | size | field |
  /// | --- | --- | --- |
  /// | 0 | 1 + 1 + 1 | packet type 4, event 0x13, length |
  /// | 3 | 1 | links |
  /// | 4 + 4n | 2 + 2 | handle, packets |
  static func completed(on link: UInt16, reading bytes: [UInt8]) throws(WireError) -> Int {
    var reader = ByteReader(bytes)
    guard try reader.u8() == 0x04, try reader.u8() == completedEvent else { throw .badValue("event") }
    _ = try reader.u8()
    var count = 0
    for _ in 0..<(try reader.u8()) {
      let (handle, packets) = (try reader.u16le(), try reader.u16le())
      if handle & 0x0FFF == link & 0x0FFF { count += Int(packets) }
    }
    return count
  }

  static let completeEvent: UInt8 = 0x0E
  static let completedEvent: UInt8 = 0x13

  /// HCIGETDEVINFO for `index`: 92 bytes, of which 44 and 46 are the size and number of ACL packets.
  static func deviceQuestion(_ index: UInt16) -> [UInt8] {
    [UInt8(truncatingIfNeeded: index), UInt8(truncatingIfNeeded: index >> 8)] + [UInt8](repeating: 0, count: 94)
  }

  /// The buffers for all data, where LE has none of its own.
  static func shared(reading bytes: [UInt8]) throws(WireError) -> LEBuffers? {
    var reader = ByteReader(bytes)
    _ = try reader.bytes(44)
    return LEBuffers(length: Int(try reader.u16le()), count: Int(try reader.u16le())).sane
  }

  /// Nothing smaller is allowed, and more than this is not needed.
  private var sane: LEBuffers? {
    guard length >= Self.least.length, count > 0 else { return nil }
    return LEBuffers(length: min(length, 1024), count: min(count, 64))
  }
}
