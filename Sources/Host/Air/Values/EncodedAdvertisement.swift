import Radio

/// An advertisement with its payloads as bytes.
struct EncodedAdvertisement: Hashable, Sendable {
  var data: [UInt8]
  /// The scan response; empty if there is none.
  var scanResponse: [UInt8]
  var interval: Duration
  var isConnectable: Bool

  init(data: [UInt8], scanResponse: [UInt8], interval: Duration, isConnectable: Bool) {
    self.data = data
    self.scanResponse = scanResponse
    self.interval = interval
    self.isConnectable = isConnectable
  }

  init(_ advertisement: Advertisement) throws(RadioError) {
    data = try advertisement.data.encoded()
    scanResponse = try advertisement.scanResponse.encoded()
    interval = advertisement.interval
    isConnectable = advertisement.isConnectable
  }
}

extension ScanResult {
  /// Decodes the two payloads of an advertiser as a scanner does.
  init(address: BluetoothAddress, data: [UInt8], scanResponse: [UInt8], rssi: Int?) {
    let first = AdvertisingData(decoding: data)
    let second = AdvertisingData(decoding: scanResponse)
    self.init(
      address: address, serviceUUIDs: first.serviceUUIDs + second.serviceUUIDs,
      serviceData: first.serviceData + second.serviceData,
      manufacturerData: first.manufacturerData + second.manufacturerData,
      localName: first.localName ?? second.localName, rssi: rssi)
  }
}
