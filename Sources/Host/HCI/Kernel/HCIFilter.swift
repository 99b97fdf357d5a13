import Bytes

/// The packets that the kernel passes to a raw socket (`struct hci_ufilter`): events by code, the answers to the commands
/// of one opcode, and data.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 4 | packet types, one bit each: ACL data is type 2, events are type 4 |
/// | 4 | 8 | events, one bit each |
/// | 12 | 2 | opcode whose Command Complete and Command Status pass; 0 for those of all opcodes |
/// | 14 | 2 | padding |
public struct HCIFilter: Hashable, Sendable {
  /// Event codes below 64.
  public var events: Set<UInt8>
  public var opcode: UInt16
  /// Whether ACL data packets pass, in both directions.
  public var passesData: Bool

  /// The filter that passes nothing.
  public static let nothing = HCIFilter(events: [])

  public init(events: Set<UInt8>, opcode: UInt16 = 0, passesData: Bool = false) {
    self.events = events
    self.opcode = opcode
    self.passesData = passesData
  }

  var bytes: [UInt8] {
    let events = events.filter { $0 < 64 }
    var writer = ByteWriter(capacity: 16)
    writer.u32le((events.isEmpty ? 0 : 1 << 4) | (passesData ? 1 << 2 : 0))
    for half in 0..<2 as Range<UInt8> {
      writer.u32le(events.filter { $0 / 32 == half }.reduce(0) { $0 | 1 << UInt32($1 % 32) })
    }
    writer.u16le(opcode)
    writer.u16le(0)
    return writer.bytes
  }
}
