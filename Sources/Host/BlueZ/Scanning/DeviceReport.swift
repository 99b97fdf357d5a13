import Common
import DBus
import Radio

/// What bluetoothd tells of a peer when the controller has received a packet of it.
struct DeviceReport: Hashable, Sendable {
  /// What this report brought: of the advertising data, of the scan response, or of both. Empty where nothing was told.
  var serviceData: [AdvertisingData.ServiceData] = []
  var manufacturerData: [AdvertisingData.ManufacturerData] = []
  /// In dBm.
  var rssi: Int?

  /// Entries of one report beyond these are passed over; two extended PDUs cannot hold as many.
  static let entryLimit = 16
  /// Bytes of the longest structure of an extended advertisement.
  static let bytesLimit = 254
  /// What the controller says where it cannot tell.
  private static let unknownRSSI = 127
  /// What changes when a peer is heard, and at no other time. `UUIDs` and `Name` also change while a peer is connected.
  private static let signs = ["RSSI", "ServiceData", "ManufacturerData", "AdvertisingData", "AdvertisingFlags"]

  init(
    serviceData: [AdvertisingData.ServiceData], manufacturerData: [AdvertisingData.ManufacturerData] = [],
    rssi: Int? = nil
  ) {
    self.serviceData = serviceData
    self.manufacturerData = manufacturerData
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
    if let value = properties["ServiceData"] { serviceData = Self.serviceData(value, &malformed) }
    if let value = properties["ManufacturerData"] { manufacturerData = Self.manufacturerData(value, &malformed) }
  }

  /// The name and the manufacturer data that changed, each as the AD structure that may have brought it. What bluetoothd makes of
  /// a name is not what was on the air: bytes that are no UTF-8 are gone.
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
    // In an order of its own: a dictionary has none.
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
