import Common

/// A single packet of an advertiser, as the radio received it.
public struct AdvertisingPacket: Hashable, Sendable {
  public enum Kind: Hashable, Sendable {
    /// An advertisement by which a peer may connect.
    case connectable
    /// An advertisement by which no peer may connect.
    case nonConnectable
    /// The answer to a scanner.
    case scanResponse
    /// An advertisement with its scan response behind it, or one of them: the radio does not say which.
    case unknown
  }

  public enum AddressKind: Hashable, Sendable {
    case publicAddress
    case randomAddress
  }

  public var address: BluetoothAddress
  public var addressKind: AddressKind
  public var kind: Kind
  /// Received signal strength in dBm; nil where the radio does not know.
  public var rssi: Int?
  /// When it was received.
  public var time: Instant
  /// The AD structures, byte by byte as on the air.
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
