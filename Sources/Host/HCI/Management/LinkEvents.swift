import Bytes
import Radio

/// A link that came up: Device Connected.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 6 + 1 | address, least significant byte first; kind of address |
/// | 7 | 4 | flags; bit 3: this machine made the link (kernels from 5.14) |
/// | 11 | 2 + n | AD structures of the peer's advertisement, if this machine made the link by one |
public struct DeviceConnected: Hashable, Sendable {
  public var address: BluetoothAddress
  public var kind: AddressKind
  public var flags: UInt32
  public var data: [UInt8]

  private static let initiated: UInt32 = 1 << 3

  /// Whether this machine made the link. Always false with a kernel before 5.14.
  public var isInitiatedHere: Bool { flags & Self.initiated != 0 }

  public init(address: BluetoothAddress, kind: AddressKind, flags: UInt32, data: [UInt8]) {
    self.address = address
    self.kind = kind
    self.flags = flags
    self.data = data
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    address = try reader.bluetoothAddress()
    kind = try AddressKind(reading: &reader)
    flags = try reader.u32le()
    data = try reader.advertisingStructures()
    try reader.finish()
  }

  func write(to writer: inout ByteWriter) {
    writer.bluetoothAddress(address)
    writer.u8(kind.rawValue)
    writer.u32le(flags)
    writer.advertisingStructures(data)
  }
}

/// A link that ended: Device Disconnected.
///
/// | offset | size | field |
/// | --- | --- | --- |
/// | 0 | 6 + 1 | address, least significant byte first; kind of address |
/// | 7 | 1 | reason |
public struct DeviceDisconnected: Hashable, Sendable {
  /// The reason why a link ended. Other codes are possible.
  public struct Reason: RawRepresentable, Hashable, Sendable {
    public let rawValue: UInt8

    public init(rawValue: UInt8) {
      self.rawValue = rawValue
    }

    public static let unspecified = Reason(rawValue: 0)
    /// The supervision timeout elapsed without a packet from the peer.
    public static let timeout = Reason(rawValue: 1)
    /// This machine ended the link.
    public static let local = Reason(rawValue: 2)
    /// The peer ended the link.
    public static let remote = Reason(rawValue: 3)
    public static let authenticationFailure = Reason(rawValue: 4)
    /// This machine is suspending.
    public static let suspend = Reason(rawValue: 5)
  }

  public var address: BluetoothAddress
  public var kind: AddressKind
  public var reason: Reason

  public init(address: BluetoothAddress, kind: AddressKind, reason: Reason) {
    self.address = address
    self.kind = kind
    self.reason = reason
  }

  init(reading reader: inout ByteReader) throws(WireError) {
    address = try reader.bluetoothAddress()
    kind = try AddressKind(reading: &reader)
    reason = Reason(rawValue: try reader.u8())
    try reader.finish()
  }

  func write(to writer: inout ByteWriter) {
    writer.bluetoothAddress(address)
    writer.u8(kind.rawValue)
    writer.u8(reason.rawValue)
  }
}
