import Common
import DBus
import Radio

/// What a peer serves, as bluetoothd shows it: `GattService1` and `GattCharacteristic1` objects below the peer's own.
struct RemoteDatabase: Sendable {
  let services: [GATTService]
  /// Where each characteristic is. Where a peer has two of one name, the first.
  let paths: [CharacteristicID: ObjectPath]
  /// The ATT MTU that bluetoothd has agreed on; nil where it does not say (before 5.62).
  let mtu: Int?
  /// Whether the peer says that it takes several ATT channels, as a BlueZ with several does. Core 5.4 Vol 3 Part G 7.4.
  let takesChannels: Bool
  /// Properties that were not what they should be.
  let malformed: UInt64

  /// What a peer has beyond these is passed over.
  static let serviceLimit = 128
  static let characteristicLimit = 1024
  /// Server Supported Features.
  private static let serverFeatures = BluetoothUUID(short: 0x2B3A)

  /// - Parameter objects: what bluetoothd has, as `GetManagedObjects` returns it.
  init(_ objects: [String: DBusValue], of device: ObjectPath) {
    var malformed: UInt64 = 0
    var services: [(path: ObjectPath, service: GATTService)] = []
    var indices: [ObjectPath: Int] = [:]
    var paths: [CharacteristicID: ObjectPath] = [:]
    var mtu: Int?
    // Paths end in the handle, of four digits: their order is that of the peer's database.
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
      // Of a service that was passed over.
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

  /// Whether a peer lets a characteristic be written with an answer. Of two of one name, either.
  func takesRequests(_ id: CharacteristicID) -> Bool {
    services.contains { service in
      service.uuid == id.service
        && service.characteristics.contains { $0.uuid == id.characteristic && $0.properties.contains(.write) }
    }
  }
}
