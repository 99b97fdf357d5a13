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

extension ByteReader {
  /// Reads an address, least significant byte first.
  mutating func bluetoothAddress() throws(WireError) -> BluetoothAddress {
    BluetoothAddress(try bytes(6).reversed().reduce(0) { $0 << 8 | UInt64($1) })
  }
}

extension ByteWriter {
  /// Writes an address, least significant byte first.
  mutating func bluetoothAddress(_ address: BluetoothAddress) {
    append((0..<6).map { UInt8(truncatingIfNeeded: address.value >> UInt64(8 * $0)) })
  }
}
