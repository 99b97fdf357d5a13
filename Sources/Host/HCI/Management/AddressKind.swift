import Bytes

/// The type of a device address, in the numbering of the management interface.
public enum AddressKind: UInt8, Hashable, Sendable {
  /// BR/EDR.
  case classic = 0
  /// LE public address, assigned by the manufacturer.
  case publicAddress = 1
  /// LE random address, chosen by the device temporarily or permanently.
  case randomAddress = 2

  public var isLE: Bool { self != .classic }

  init(reading reader: inout ByteReader) throws(WireError) {
    guard let kind = AddressKind(rawValue: try reader.u8()) else { throw .badValue("address type") }
    self = kind
  }
}
