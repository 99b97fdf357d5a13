import Common
import DBus
import Loop
import Radio

/// A GATT application on the bus: an object manager, its services, their characteristics, and the registration.
@LoopActor
final class ServedApplication {
  let path: ObjectPath
  let registration: KeptRegistration
  private var characteristics: [CharacteristicID: ServedCharacteristic] = [:]
  private var services: [ExportedObject] = []
  private weak var delegate: (any GATTServerDelegate)?
  private var isOpen = true
  /// The links that the delegate was told of.
  private var links: Set<LinkID> = []

  /// - Parameters:
  ///   - path: of the object manager; services and characteristics are below it.
  ///   - isOwner: whether a call comes from bluetoothd.
  ///   - written: takes what clients write.
  ///   - onlyClient: who is connected, if it is one alone.
  init(
    _ application: GATTApplication, at path: ObjectPath, on bus: BusConnection, registration: KeptRegistration,
    delegate: any GATTServerDelegate, counters: BlueZCounters, isOwner: @escaping @LoopActor (MethodCall) -> Bool,
    written: @escaping @LoopActor (ServedCharacteristic.Write, CharacteristicID) throws(ATTError) -> Void,
    onlyClient: @escaping @LoopActor () -> BluetoothAddress?
  ) {
    self.path = path
    self.registration = registration
    self.delegate = delegate
    bus.objects.exportManager(path)
    for (index, service) in application.services.enumerated() {
      let servicePath = path.child("service\(index)")
      services.append(Self.export(service, at: servicePath, on: bus.objects, manager: path))
      for (position, characteristic) in service.characteristics.enumerated() {
        let id = CharacteristicID(service: service.uuid, characteristic: characteristic.uuid)
        guard characteristics[id] == nil else { continue }
        let served = ServedCharacteristic(
          id, characteristic.properties, at: servicePath.child("char\(position)"), counters: counters, isOwner: isOwner,
          written: { (write) throws(ATTError) in try written(write, id) }, onlyClient: onlyClient)
        served.export(on: bus, of: servicePath, manager: path)
        characteristics[id] = served
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

  /// Whether it has anything to say to clients.
  var notifies: Bool { characteristics.values.contains(where: \.canNotify) }

  /// Its subscriptions have ended with its link.
  func clientLeft(_ address: BluetoothAddress) {
    for characteristic in characteristics.values { characteristic.clientLeft(address) }
  }

  /// bluetoothd has forgotten it, or is about to hear of it.
  func reset() {
    for characteristic in characteristics.values { characteristic.reset() }
  }

  /// Takes it off the bus; the delegate hears nothing more.
  func close() {
    guard isOpen else { return }
    isOpen = false
    delegate = nil
    registration.close()
    for characteristic in characteristics.values { characteristic.close() }
    for service in services { service.cancel() }
  }

  // MARK: What happens

  /// Makes a link known to it, once.
  func introduce(_ link: LinkTable.Entry) {
    guard isOpen, links.insert(link.id).inserted else { return }
    delegate?.linkOpened(link.id, address: link.address)
    if let mtu = link.mtu { delegate?.linkChanged(link.id, mtu: mtu) }
  }

  func linkChanged(_ link: LinkID, mtu: Int) {
    guard links.contains(link) else { return }
    delegate?.linkChanged(link, mtu: mtu)
  }

  func written(_ value: [UInt8], to id: CharacteristicID, on link: LinkID) throws(ATTError) {
    guard let delegate else { throw .unlikely }
    try delegate.written(value, to: id, on: link)
  }

  func linkClosed(_ link: LinkID) {
    guard links.remove(link) != nil else { return }
    delegate?.linkClosed(link)
  }
}
