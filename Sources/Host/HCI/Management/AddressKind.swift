import Bytes

/// The kind of a device address, as the management interface counts them.
public enum AddressKind: UInt8, Hashable, Sendable {
  /// BR/EDR.
  case classic = 0
  /// LE, the address of a manufacturer's number.
  case publicAddress = 1
  /// LE, made up by the device, for a while or for good.
  case randomAddress = 2

  public var isLE: Bool { self != .classic }

  init(reading reader: inout ByteReader) throws(WireError) {
    guard let kind = AddressKind(rawValue: try reader.u8()) else { throw .badValue("address type") }
    self = kind
  }
}
