import Common
import DBus
import Loop
import Radio

/// A GATT application on the bus: an object manager, its services, their characteristics, and the registration.
@LoopActor
final class ServedApplication {
  let number: ApplicationID
  /// Of the object manager; services and characteristics are below it.
  let path: ObjectPath
  let registration: KeptRegistration
  /// By where they are; of two with one name in a service, the first.
  private(set) var characteristics: [CharacteristicID: ServedCharacteristic] = [:]
  let wantsFastLinks: Bool
  let services: Set<BluetoothUUID>
  private var objects: [ExportedObject] = []

  init(_ application: GATTApplication, as number: ApplicationID, registration: KeptRegistration, radio: BlueZRadio) {
    self.number = number
    self.registration = registration
    path = registration.path
    wantsFastLinks = application.wantsFastLinks
    services = Set(application.services.map(\.uuid))
    let tree = radio.bus.objects
    tree.exportManager(path)
    for (index, service) in application.services.enumerated() {
      let servicePath = path.child("service\(index)")
      objects.append(Self.export(service, at: servicePath, on: tree, manager: path))
      for (position, characteristic) in service.characteristics.enumerated() {
        let served = ServedCharacteristic(
          characteristic, in: service, of: number, at: servicePath.child("char\(position)"), radio: radio)
        guard characteristics[served.id] == nil else { continue }
        served.export(of: servicePath, manager: path)
        characteristics[served.id] = served
      }
    }
  }

  private static func export(
    _ service: GATTService, at path: ObjectPath, on tree: ObjectTree, manager: ObjectPath
  ) -> ExportedObject {
    tree.export(
      path,
      interfaces: [
        Interface(
          BlueZName.gattService,
          properties: [
            Property("UUID", "s", emits: .const, get: { .string(service.uuid.description) }),
            Property("Primary", "b", emits: .const, get: { .bool(true) }),
          ])
      ], manager: manager)
  }

  subscript(id: CharacteristicID) -> ServedCharacteristic? { characteristics[id] }

  /// Whether it has values for clients that never subscribe.
  var reachesAll: Bool { characteristics.values.contains { $0.canNotify && $0.reach == .exact } }

  /// A link has ended, and with it the subscriptions of its client.
  func forget(_ link: LinkID) {
    for characteristic in characteristics.values { characteristic.forget(link) }
  }

  /// Takes it off the bus.
  func close() {
    registration.close()
    for characteristic in characteristics.values { characteristic.close() }
    for object in objects { object.cancel() }
  }
}
