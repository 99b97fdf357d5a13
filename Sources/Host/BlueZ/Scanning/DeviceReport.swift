import Common
import DBus
import Radio

/// bluetoothd's report about a peer whose packet the controller has received.
struct DeviceReport: Hashable, Sendable {
  /// The service data in this report: from the advertising data, the scan response, or both. Empty if there is none.
  var serviceData: [AdvertisingData.ServiceData] = []
  /// The manufacturer data in this report. Empty if there is none.
  var manufacturerData: [AdvertisingData.ManufacturerData] = []
  /// Signal strength of the advertiser in dBm; nil if the report lacks it.
  var rssi: Int?

  /// Maximum entries of one report; further ones are ignored. Two extended PDUs cannot contain more.
  static let entryLimit = 16
  /// Maximum bytes of a structure in an extended advertisement.
  static let bytesLimit = 254
  /// The controller's value for an unknown signal strength.
  private static let unknownRSSI = 127
  /// Properties whose change shows that a packet was received. `UUIDs` and `Name` also change while a peer is
  /// connected.
  private static let signs = ["RSSI", "ServiceData", "ManufacturerData", "AdvertisingData", "AdvertisingFlags"]

  init(
    serviceData: [AdvertisingData.ServiceData], manufacturerData: [AdvertisingData.ManufacturerData] = [],
    rssi: Int? = nil
  ) {
    self.serviceData = serviceData
    self.manufacturerData = manufacturerData
    self.rssi = rssi
  }

  /// Nil if the properties do not indicate a received packet.
  ///
  /// - Parameter malformed: is increased for each property of a wrong type, which is ignored.
  init?(_ properties: [String: DBusValue], malformed: inout UInt64) {
    guard Self.signs.contains(where: { properties[$0] != nil }) else { return nil }
    if let value = properties["RSSI"] {
      rssi = value.asInteger
      if rssi == nil { malformed += 1 }
      if rssi == Self.unknownRSSI { rssi = nil }
    }
    if let value = properties["ServiceData"] { serviceData = Self.serviceData(value, &malformed) }
    if let value = properties["ManufacturerData"] { manufacturerData = Self.manufacturerData(value, &malformed) }
  }

  /// The changed name and manufacturer data, each as the AD structure that may have contained it. bluetoothd may have
  /// altered a name: it removes bytes that are not UTF-8.
  static func structures(_ properties: [String: DBusValue]) -> [[UInt8]] {
    var malformed: UInt64 = 0
    var structures: [AdvertisingStructure] = []
    if let name = properties["Name"]?.asString { structures.append(.localName(name)) }
    if let value = properties["ManufacturerData"] {
      structures += manufacturerData(value, &malformed).map { .manufacturerData($0.company, $0.bytes) }
    }
    return structures.compactMap { try? AdvertisingData([$0]).encoded() }
  }

  private static func serviceData(_ value: DBusValue, _ malformed: inout UInt64) -> [AdvertisingData.ServiceData] {
    guard let entries = value.asDictionary else {
      malformed += 1
      return []
    }
    // Entries are sorted, because a dictionary has no order.
    return entries.sorted { $0.key < $1.key }.prefix(entryLimit).compactMap { key, value in
      guard let service = BluetoothUUID(key), let bytes = bytes(value) else {
        malformed += 1
        return nil
      }
      return .init(service: service, bytes: bytes)
    }
  }

  private static func manufacturerData(
    _ value: DBusValue, _ malformed: inout UInt64
  ) -> [AdvertisingData.ManufacturerData] {
    guard case .dictionary("q", _, let entries) = value.unwrapped else {
      malformed += 1
      return []
    }
    var found: [AdvertisingData.ManufacturerData] = []
    for entry in entries.prefix(entryLimit) {
      guard let company = entry.key.asUInt16, let bytes = bytes(entry.value) else {
        malformed += 1
        continue
      }
      found.append(.init(company: company, bytes: bytes))
    }
    return found.sorted { $0.company < $1.company }
  }

  private static func bytes(_ value: DBusValue) -> [UInt8]? {
    value.asBytes.flatMap { $0.count <= bytesLimit ? $0 : nil }
  }
}
