import Bytes
import Common
import Radio

/// Common definitions of the hub's frames.
///
/// A frame is a `u32` length of the rest, a tag byte, and the fields of that tag, all little endian:
///
/// | field | bytes |
/// |---|---|
/// | address | 6 |
/// | UUID | 16: low half, high half |
/// | characteristic | 32: service, characteristic |
/// | link | 8 |
/// | flag | 1: 0 or 1 |
/// | signal strength | 1: dBm, 127 if unknown |
/// | value | `u16` length, then the bytes |
/// | text | `u16` length, then UTF-8 |
/// | list | `u8` or `u16` count, then the entries |
enum AirWire {
  static let version: UInt8 = 3
  /// Maximum bytes of a frame, without its length field.
  static let frameLimit = 65536
  /// Maximum bytes of a value. A link accepts 512; a longer value passes so that the link can refuse it.
  static let valueLimit = 1024
  static let textLimit = 1024
  /// Maximum services of an application.
  static let serviceLimit = 64
  /// Minimum bytes of a service, and of a characteristic.
  static let serviceSize = 17
  static let characteristicSize = 18
  /// Maximum services of a peer.
  static let discoveredLimit = frameLimit / serviceSize
  static let characteristicLimit = 64
  static let uuidLimit = 64
  /// Maximum links that one frame sends a value to.
  static let linkLimit = 64
  /// The byte for an unknown signal strength, as in HCI.
  static let noSignalStrength: UInt8 = 127

  /// Returns a frame with its length field; nil if it is longer than `frameLimit`.
  static func frame(_ write: (inout ByteWriter) -> Void) -> [UInt8]? {
    var body = ByteWriter(capacity: 64)
    write(&body)
    guard body.bytes.count <= frameLimit else { return nil }
    var whole = ByteWriter(capacity: body.bytes.count + 4)
    whole.u32le(UInt32(body.bytes.count))
    whole.append(body.bytes)
    return whole.bytes
  }

  /// Cuts a value to `valueLimit` bytes: a value that is too long for a link remains so.
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
