import Common

/// A scan result: the combined data of an advertisement and its scan response.
public struct ScanResult: Hashable, Sendable {
  public var address: BluetoothAddress
  public var serviceUUIDs: [BluetoothUUID]
  public var serviceData: [AdvertisingData.ServiceData]
  public var manufacturerData: [AdvertisingData.ManufacturerData]
  public var localName: String?
  /// The received signal strength in dBm; nil if unknown.
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

  /// The services in the advertiser's UUID lists and service data.
  public var services: Set<BluetoothUUID> { Set(serviceUUIDs).union(serviceData.map(\.service)) }
}

/// An event of a scan for advertisers.
public enum ScanEvent: Hashable, Sendable {
  /// An advertiser was received: on its first packet, when its data changes, and at most once a second while it
  /// continues.
  case sighted(ScanResult)
  /// An advertiser was not received for half a minute, was displaced by others, or was removed by the driver; or the
  /// radio is gone.
  case lost(BluetoothAddress)
}
