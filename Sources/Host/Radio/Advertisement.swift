import Common

/// A connectable, scannable legacy advertisement.
public struct Advertisement: Hashable, Sendable {
  public var data: AdvertisingData
  public var scanResponse: AdvertisingData
  /// Time between two advertising events.
  public var interval: Duration

  public init(data: AdvertisingData, scanResponse: AdvertisingData, interval: Duration = .milliseconds(100)) {
    self.data = data
    self.scanResponse = scanResponse
    self.interval = interval
  }
}

/// An advertiser as a scanner sees it: what its advertisement and its scan response hold, put together.
public struct Sighting: Hashable, Sendable {
  public var address: BluetoothAddress
  public var serviceUUIDs: [BluetoothUUID]
  public var serviceData: [AdvertisingData.ServiceData]
  public var localName: String?
  /// Received signal strength in dBm; nil where the radio does not know.
  public var rssi: Int?

  public init(
    address: BluetoothAddress, serviceUUIDs: [BluetoothUUID], serviceData: [AdvertisingData.ServiceData],
    localName: String? = nil, rssi: Int? = nil
  ) {
    self.address = address
    self.serviceUUIDs = serviceUUIDs
    self.serviceData = serviceData
    self.localName = localName
    self.rssi = rssi
  }

  public func serviceData(for service: BluetoothUUID) -> [UInt8]? {
    serviceData.first { $0.service == service }?.bytes
  }
}
