import Common
import DBus
import Radio

/// The services of a peer as bluetoothd exports them: `GattService1` and `GattCharacteristic1` objects below the peer's
/// object.
struct RemoteDatabase: Sendable {
  let services: [GATTService]
  /// The object path of each characteristic; for duplicates that of the first one.
  let paths: [CharacteristicID: ObjectPath]
  /// The ATT MTU that bluetoothd negotiated; nil if it does not report one (before 5.62).
  let mtu: Int?
  /// Whether the peer declares support for several ATT channels, as BlueZ does. Core 5.4 Vol 3 Part G 7.4.
  let takesChannels: Bool
  /// Number of properties of bluetoothd's objects that are invalid and were ignored.
  let malformed: UInt64

  /// Limits beyond which services and characteristics of a peer are ignored.
  static let serviceLimit = 128
  static let characteristicLimit = 1024
  /// UUID of the characteristic Server Supported Features, which declares support for several ATT channels.
  private static let serverFeatures = BluetoothUUID(short: 0x2B3A)

  /// - Parameter objects: bluetoothd's objects, as `GetManagedObjects` returns them.
  init(_ objects: [String: DBusValue], of device: ObjectPath) {
    var malformed: UInt64 = 0
    var services: [(path: ObjectPath, service: GATTService)] = []
    var indices: [ObjectPath: Int] = [:]
    var paths: [CharacteristicID: ObjectPath] = [:]
    var mtu: Int?
    // Paths end in the handle, with four digits: their order is that of the peer's database.
    let below = objects.keys.filter { $0.hasPrefix(device.string + "/") }.sorted()
    for text in below {
      guard let properties = objects[text]?[BlueZName.gattService] else { continue }
      guard let path = ObjectPath(text), let uuid = properties["UUID"]?.asString.flatMap({ BluetoothUUID($0) }) else {
        malformed += 1
        continue
      }
      guard services.count < Self.serviceLimit else { break }
      indices[path] = services.count
      services.append((path, GATTService(uuid: uuid, characteristics: [])))
    }
    var count = 0
    for text in below {
      guard let properties = objects[text]?[BlueZName.gattCharacteristic] else { continue }
      guard count < Self.characteristicLimit else { break }
      guard let path = ObjectPath(text), let uuid = properties["UUID"]?.asString.flatMap({ BluetoothUUID($0) }),
        let service = properties["Service"]?.asObjectPath, let flags = properties["Flags"]?.asStrings
      else {
        malformed += 1
        continue
      }
      // The characteristic belongs to an ignored service.
      guard let index = indices[service] else { continue }
      count += 1
      services[index].service.characteristics.append(
        GATTCharacteristic(uuid: uuid, properties: GATTCharacteristic.Properties(flags: flags)))
      let id = CharacteristicID(service: services[index].service.uuid, characteristic: uuid)
      paths[id] = paths[id] ?? path
      if let value = properties["MTU"] {
        if let told = ATT.mtu(value) { mtu = mtu ?? told } else { malformed += 1 }
      }
    }
    self.services = services.map(\.service)
    self.paths = paths
    takesChannels = paths.keys.contains { $0.characteristic == Self.serverFeatures }
    self.mtu = mtu
    self.malformed = malformed
  }

  /// Whether a characteristic of the peer, or any of its duplicates, supports Write Request.
  func takesRequests(_ id: CharacteristicID) -> Bool {
    services.contains { service in
      service.uuid == id.service
        && service.characteristics.contains { $0.uuid == id.characteristic && $0.properties.contains(.write) }
    }
  }
}
