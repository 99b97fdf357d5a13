import Bytes
import Common
import Radio

/// What the frames of the hub have in common.
///
/// A frame is a `u32` length of what follows it, a tag byte, and the fields that the tag asks for, all little endian:
///
/// | field | bytes |
/// |---|---|
/// | address | 6 |
/// | UUID | 16: low half, high half |
/// | characteristic | 32: service, characteristic |
/// | link | 8 |
/// | flag | 1: 0 or 1 |
/// | signal strength | 1: dBm, 127 where it is not known |
/// | value | `u16` length, so many bytes |
/// | text | `u16` length, so many bytes of UTF-8 |
/// | list | `u8` or `u16` count, so many entries |
enum AirWire {
  static let version: UInt8 = 3
  /// The longest frame, without its length.
  static let frameLimit = 65536
  /// The longest value. A link takes 512; a little more is let through to be refused where it belongs.
  static let valueLimit = 1024
  static let textLimit = 1024
  /// How many services an application may have.
  static let serviceLimit = 64
  /// What a service, and what a characteristic takes at least.
  static let serviceSize = 17
  static let characteristicSize = 18
  /// How many services a peer may have.
  static let discoveredLimit = frameLimit / serviceSize
  static let characteristicLimit = 64
  static let uuidLimit = 64
  /// How many links one value may be sent to in a frame.
  static let linkLimit = 64
  /// The byte for a signal strength that is not known, as in HCI.
  static let noSignalStrength: UInt8 = 127

  /// A frame with its length in front; nil if it is too long to be sent.
  static func frame(_ write: (inout ByteWriter) -> Void) -> [UInt8]? {
    var body = ByteWriter(capacity: 64)
    write(&body)
    guard body.bytes.count <= frameLimit else { return nil }
    var whole = ByteWriter(capacity: body.bytes.count + 4)
    whole.u32le(UInt32(body.bytes.count))
    whole.append(body.bytes)
    return whole.bytes
  }

  /// A value as far as a frame takes it: one that is too long for a link stays so.
  static func capped(_ value: [UInt8]) -> [UInt8] {
    value.count <= valueLimit ? value : Array(value.prefix(valueLimit))
  }
}

extension BluetoothUUID {
  /// The order of UUIDs in a frame.
  func isBefore(_ other: BluetoothUUID) -> Bool { (high, low) < (other.high, other.low) }
}

extension AdvertisingPattern {
  /// The order of patterns in a frame.
  func isBefore(_ other: AdvertisingPattern) -> Bool {
    [type, offset].lexicographicallyPrecedes([other.type, other.offset])
      || [type, offset] == [other.type, other.offset] && bytes.lexicographicallyPrecedes(other.bytes)
  }
}
