import Common

/// A single received packet of an advertiser.
public struct AdvertisingPacket: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// The packet is an advertisement to which peers can connect.
    case connectable
    /// The packet is an advertisement to which peers cannot connect.
    case nonConnectable
    /// The packet is a scan response.
    case scanResponse
    /// An advertisement followed by its scan response, or only one of the two: the radio does not report which.
    case unknown
  }

  public enum AddressKind: Hashable, Sendable {
    case publicAddress
    case randomAddress
  }

  public var address: BluetoothAddress
  public var addressKind: AddressKind
  public var kind: Kind
  /// The received signal strength in dBm; nil if unknown.
  public var rssi: Int?
  /// The time at which the packet was received, by the monotonic clock.
  public var time: Instant
  /// The AD structures, exactly as received.
  public var data: [UInt8]

  public init(
    address: BluetoothAddress, addressKind: AddressKind, kind: Kind, rssi: Int?, time: Instant, data: [UInt8]
  ) {
    self.address = address
    self.addressKind = addressKind
    self.kind = kind
    self.rssi = rssi
    self.time = time
    self.data = data
  }
}
