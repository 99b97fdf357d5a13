import Bytes
import Radio

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
