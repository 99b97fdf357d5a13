import Common
import DBus
import Radio

/// What bluetoothd tells of a peer when the controller has received something of it.
struct AdvertisingReport: Hashable, Sendable {
  /// What this report brought: of the advertising data, of the scan response, or of both. Empty where nothing was told.
  var serviceData: [AdvertisingData.ServiceData] = []
  /// In dBm.
  var rssi: Int?

  /// More in one report is passed over; two extended PDUs cannot hold as much.
  static let entryLimit = 16
  /// The longest service data of an extended advertisement.
  static let bytesLimit = 254
  /// What the controller says where it cannot tell.
  private static let unknownRSSI = 127
  /// What changes when a peer is heard, and at no other time. `UUIDs` and `Name` also change while one is connected.
  private static let signs = ["RSSI", "ServiceData", "ManufacturerData", "AdvertisingData", "AdvertisingFlags"]

  init(serviceData: [AdvertisingData.ServiceData], rssi: Int? = nil) {
    self.serviceData = serviceData
    self.rssi = rssi
  }

  /// Nil where the properties do not mean that the peer was heard.
  ///
  /// - Parameter malformed: is raised by what is not of its type, which is left out.
  init?(_ properties: [String: DBusValue], malformed: inout UInt64) {
    guard Self.signs.contains(where: { properties[$0] != nil }) else { return nil }
    if let value = properties["RSSI"] {
      rssi = value.asInteger
      if rssi == nil { malformed += 1 }
      if rssi == Self.unknownRSSI { rssi = nil }
    }
    guard let value = properties["ServiceData"] else { return }
    guard let entries = value.asDictionary else {
      malformed += 1
      return
    }
    // In an order of its own: a dictionary has none.
    for (key, value) in entries.sorted(by: { $0.key < $1.key }).prefix(Self.entryLimit) {
      if let service = BluetoothUUID(key), let bytes = value.asBytes, bytes.count <= Self.bytesLimit {
        serviceData.append(.init(service: service, bytes: bytes))
      } else {
        malformed += 1
      }
    }
  }
}
