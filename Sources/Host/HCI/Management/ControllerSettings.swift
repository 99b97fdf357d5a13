import Bytes
import Radio

/// Settings of a controller. The kernel defines more than these.
public struct ControllerSettings: OptionSet, Hashable, Sendable {
  public let rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  public static let powered = ControllerSettings(rawValue: 1 << 0)
  /// Peers can connect to the whole adapter, by any advertisement. Facts: bluez.md section 13.
  public static let connectable = ControllerSettings(rawValue: 1 << 1)
  public static let discoverable = ControllerSettings(rawValue: 1 << 3)
  public static let lowEnergy = ControllerSettings(rawValue: 1 << 9)
  public static let advertising = ControllerSettings(rawValue: 1 << 10)
}

/// Read Controller Information, limited to the fields that are used here.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 6 | address, least significant byte first |
/// | 6 | 1 + 2 | Bluetooth version, manufacturer |
/// | 9 | 4 | supported settings |
/// | 13 | 4 | current settings |
/// | 17 | 3 + 249 + 11 | class, name, short name |
public struct ReadControllerInformation: ManagementCommand {
  public static let opcode: UInt16 = 0x0004

  public struct Reply: Hashable, Sendable {
    public var address: BluetoothAddress
    public var supported: ControllerSettings
    /// The settings that are enabled at present.
    public var current: ControllerSettings

    public init(address: BluetoothAddress, supported: ControllerSettings, current: ControllerSettings) {
      self.address = address
      self.supported = supported
      self.current = current
    }
  }

  /// Length of class, name and short name, in bytes.
  static let restLength = 3 + 249 + 11

  public init() {}

  public func write(to writer: inout ByteWriter) {}

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> Reply {
    let address = try reader.bluetoothAddress()
    _ = try reader.bytes(3)
    let reply = Reply(
      address: address, supported: ControllerSettings(rawValue: try reader.u32le()),
      current: ControllerSettings(rawValue: try reader.u32le()))
    _ = try reader.bytes(restLength)
    try reader.finish()
    return reply
  }
}

/// Set Connectable: whether peers can connect to the whole adapter, by BR/EDR as well. The reply contains the settings.
public struct SetConnectable: ManagementCommand {
  public static let opcode: UInt16 = 0x0007
  public var isConnectable: Bool

  public init(_ isConnectable: Bool) {
    self.isConnectable = isConnectable
  }

  public func write(to writer: inout ByteWriter) { writer.u8(isConnectable ? 1 : 0) }

  public static func reply(reading reader: inout ByteReader) throws(WireError) -> ControllerSettings {
    let settings = ControllerSettings(rawValue: try reader.u32le())
    try reader.finish()
    return settings
  }
}
