import Bytes
import Radio

/// The answer to Read Controller Information.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 6 | address, least significant byte first |
/// | 6 | 1 | version of Bluetooth (0x0B: 5.2) |
/// | 7 | 2 | manufacturer |
/// | 9 | 4 + 4 | settings that are supported, that are in force |
/// | 17 | 3 | class of device |
/// | 20 | 249 + 11 | name and short name, which are skipped |
public struct ControllerInformation: Hashable, Sendable {
  public var address: BluetoothAddress
  public var bluetoothVersion: UInt8
  public var manufacturer: UInt16
  public var supported: ControllerSettings
  public var current: ControllerSettings

  static let namesLength = 3 + 249 + 11

  public init(
    address: BluetoothAddress, bluetoothVersion: UInt8, manufacturer: UInt16, supported: ControllerSettings,
    current: ControllerSettings
  ) {
    self.address = address
    self.bluetoothVersion = bluetoothVersion
    self.manufacturer = manufacturer
    self.supported = supported
    self.current = current
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    address = try reader.bluetoothAddress()
    bluetoothVersion = try reader.u8()
    manufacturer = try reader.u16le()
    supported = ControllerSettings(rawValue: try reader.u32le())
    current = ControllerSettings(rawValue: try reader.u32le())
    _ = try reader.bytes(Self.namesLength)
    try reader.finish()
  }
}

/// Settings of a controller. The kernel has more than the three that are named here.
public struct ControllerSettings: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  public static let powered = ControllerSettings(rawValue: 1 << 0)
  public static let lowEnergy = ControllerSettings(rawValue: 1 << 9)
  public static let advertising = ControllerSettings(rawValue: 1 << 10)
}

extension ByteReader {
  /// Reads an address, least significant byte first as on the air.
  mutating func bluetoothAddress() throws(WireError) -> BluetoothAddress {
    BluetoothAddress(try bytes(6).reversed().reduce(0) { $0 << 8 | UInt64($1) })
  }
}

extension ByteWriter {
  /// Writes an address, least significant byte first as on the air.
  mutating func bluetoothAddress(_ address: BluetoothAddress) {
    append((0..<6).map { UInt8(truncatingIfNeeded: address.value >> UInt64(8 * $0)) })
  }
}
