import DBus

/// A device object of `FakeBlueZ`: a peer that bluetoothd knows.
public struct FakeDevice {
  public internal(set) var address: String
  public internal(set) var isConnected: Bool
  public internal(set) var isPaired: Bool
  var isResolved = false
  /// The content of its advertisements; nil if none was received.
  var heard: Heard?
  var object: ExportedObject?
  /// Its services and characteristics, while bluetoothd shows them.
  var attributes: [ExportedObject] = []

  struct Heard {
    var uuids: [String]
    var serviceData: [String: [UInt8]]
    var manufacturerData: [UInt16: [UInt8]]
    var rssi: Int16
    var name: String?
  }

  init(address: String, isConnected: Bool, isPaired: Bool) {
    self.address = address
    self.isConnected = isConnected
    self.isPaired = isPaired
  }
}

extension FakeDevice.Heard {
  var properties: [String: DBusValue] {
    var properties: [String: DBusValue] = [
      "RSSI": .int16(rssi), "UUIDs": .strings(uuids),
      "ServiceData": .dictionary(
        key: "s", value: "v",
        serviceData.sorted { $0.key < $1.key }.map { DBusEntry(.string($0.key), .variant(.bytes($0.value))) }),
    ]
    if !manufacturerData.isEmpty {
      properties["ManufacturerData"] = .dictionary(
        key: "q", value: "v", manufacturerData.map { DBusEntry(.uint16($0.key), .variant(.bytes($0.value))) })
    }
    if let name { properties["Name"] = .string(name) }
    return properties
  }
}
