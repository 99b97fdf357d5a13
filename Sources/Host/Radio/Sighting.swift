import Common

/// An advertiser as a scanner sees it: what its advertisement and its scan response hold, put together.
public struct Sighting: Hashable, Sendable {
  public var address: BluetoothAddress
  public var serviceUUIDs: [BluetoothUUID]
  public var serviceData: [AdvertisingData.ServiceData]
  public var manufacturerData: [AdvertisingData.ManufacturerData]
  public var localName: String?
  /// Received signal strength in dBm; nil where the radio does not know.
  public var rssi: Int?

  public init(
    address: BluetoothAddress, serviceUUIDs: [BluetoothUUID], serviceData: [AdvertisingData.ServiceData],
    manufacturerData: [AdvertisingData.ManufacturerData] = [], localName: String? = nil, rssi: Int? = nil
  ) {
    self.address = address
    self.serviceUUIDs = serviceUUIDs
    self.serviceData = serviceData
    self.manufacturerData = manufacturerData
    self.localName = localName
    self.rssi = rssi
  }

  public func serviceData(for service: BluetoothUUID) -> [UInt8]? {
    serviceData.first { $0.service == service }?.bytes
  }

  /// The services that the advertiser names, in lists or by their data.
  public var services: Set<BluetoothUUID> { Set(serviceUUIDs).union(serviceData.map(\.service)) }
}

/// What a scan tells.
public enum ScanEvent: Hashable, Sendable {
  /// An advertiser was heard: when it is first heard, when its data changes, and once a second at most while it is heard.
  case sighted(Sighting)
  /// An advertiser that was sighted has not been heard for half a minute, had to give way to others, or is not known to the
  /// driver any more; or the radio is gone.
  case lost(BluetoothAddress)
}
