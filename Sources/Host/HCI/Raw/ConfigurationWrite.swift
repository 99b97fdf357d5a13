import Bytes
import Radio

/// The values of a Client Characteristic Configuration (CCCD): a client's subscription to a characteristic.
public enum ClientConfiguration: UInt16, Hashable, Sendable {
  case nothing = 0
  case notifications = 1
  case indications = 2
}

/// A Write Request or Write Command with a value of one or two bytes from a client, as an ACL data packet. Every CCCD
/// write has this form, and so do other short writes.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 1 | packet type 2 |
/// | 1 | 2 | handle of the link; bits 12 and 13 are 2 in the first packet of a frame from a peer |
/// | 3 | 2 | length of the rest |
/// | 5 | 2 + 2 | L2CAP: length of the rest, channel 4 |
/// | 9 | 1 + 2 | ATT: opcode `12` or `52`, handle of the attribute |
/// | 12 | 1 or 2 | value |
struct ConfigurationWrite: Hashable, Sendable {
  var link: UInt16
  var attribute: UInt16
  var value: UInt16

  private static let packetType: UInt8 = 0x02
  private static let firstOfFrame: UInt8 = 0x20
  private static let frameMask: UInt8 = 0x30
  private static let opcodes: Set<UInt8> = [0x12, 0x52]
  /// Length of a packet with a value of two bytes, the maximum that is decoded.
  static let limit = 14

  /// Decodes a complete packet; nil if it has another form.
  init?(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    guard try reader.u8() == Self.packetType else { return nil }
    let head = try reader.u16le()
    guard UInt8(truncatingIfNeeded: head >> 8) & Self.frameMask == Self.firstOfFrame else { return nil }
    guard Int(try reader.u16le()) == reader.remaining else { throw .badValue("length") }
    let length = Int(try reader.u16le())
    guard try reader.u16le() == ATT.channel, Self.opcodes.contains(try reader.u8()) else { return nil }
    attribute = try reader.u16le()
    guard length == 3 + reader.remaining else { return nil }
    link = head & HCILink.handleMask
    switch reader.remaining {
    case 1: value = UInt16(try reader.u8())
    case 2: value = try reader.u16le()
    default: return nil
    }
  }

  /// The packet filter that passes packets of this form, and events.
  static let program = PacketProgram(instructions: [
    .byte(0),
    .isEqual(to: UInt32(ControllerEvent.packetType), then: 13, else: 0),
    .isEqual(to: UInt32(packetType), then: 0, else: 11),
    .byte(2),
    .and(UInt32(frameMask)),
    .isEqual(to: UInt32(firstOfFrame), then: 0, else: 8),
    // The channel, little endian.
    .half(7),
    .isEqual(to: UInt32(ATT.channel.byteSwapped), then: 0, else: 6),
    .byte(9),
    .isEqual(to: 0x12, then: 1, else: 0),
    .isEqual(to: 0x52, then: 0, else: 3),
    .length,
    .isEqual(to: UInt32(limit - 1), then: 2, else: 0),
    .isEqual(to: UInt32(limit), then: 1, else: 0),
    .drop,
    .admit,
  ])
}
