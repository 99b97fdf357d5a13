import Common
import DBus
import Journal
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
  /// Whether its services may ask for handles, and have places among them.
  private let hasOffsets: Bool
  private var objects: [ExportedObject] = []
  /// Where bluetoothd is to put its services.
  var block: HandleBlock?
  /// Whether bluetoothd may choose where, for it has refused the block.
  private var doesWithout = false
  /// Ends the wait for the links of its clients, while it is about to leave.
  var leavingTimer: Registration?

  init(_ application: GATTApplication, as number: ApplicationID, registration: KeptRegistration, radio: BlueZRadio) {
    self.number = number
    self.registration = registration
    path = registration.path
    wantsFastLinks = application.wantsFastLinks
    services = Set(application.services.map(\.uuid))
    hasOffsets = radio.choosesHandles && application.services.contains { $0.handleOffset != nil }
    let tree = radio.bus.objects
    tree.exportManager(path)
    for (index, service) in application.services.enumerated() {
      let servicePath = path.child("service\(index)")
      objects.append(export(service, at: servicePath, on: tree))
      for (position, characteristic) in service.characteristics.enumerated() {
        let served = ServedCharacteristic(
          characteristic, in: service, of: number, at: servicePath.child("char\(position)"), radio: radio)
        guard characteristics[served.id] == nil else { continue }
        served.export(of: servicePath, manager: path)
        characteristics[served.id] = served
      }
    }
  }

  private func export(_ service: GATTService, at place: ObjectPath, on tree: ObjectTree) -> ExportedObject {
    tree.export(
      place,
      interfaces: [
        Interface(
          BlueZName.gattService,
          properties: [
            Property("UUID", "s", emits: .const, get: { .string(service.uuid.description) }),
            Property("Primary", "b", emits: .const, get: { .bool(true) }),
            // With 0 bluetoothd takes any, and writes which; the characteristics know what they need of it.
            Property(
              "Handle", "q", emits: .none, get: { [weak self] in .uint16(self?.handle(of: service) ?? 0) },
              set: { _ in }),
          ])
      ], manager: path)
  }

  /// Registers it at another place from now on; nil for none.
  func aim(at place: Place?) {
    doesWithout = false
    registration.aim(at: place)
  }

  // MARK: Handles

  private func handle(of service: GATTService) -> UInt16? {
    guard wantsHandles, let block else { return nil }
    return service.handleOffset.map { block.handle(at: $0) }
  }

  /// Whether it asks for handles when it is registered.
  var wantsHandles: Bool { hasOffsets && !doesWithout }

  /// bluetoothd has refused it. Another program's service may have one of the handles, so the next registration does without
  /// them; where that is refused, too, it was something else, and the one after that asks for handles again.
  ///
  /// - Returns: whether the next one does without them.
  func doesWithoutHandles(after error: DBusError) -> Bool {
    doesWithout = hasOffsets && error.name == BlueZName.Failure.failed && !doesWithout
    return doesWithout
  }

  /// bluetoothd has registered it, or has it no longer: then the next registration asks for handles once more.
  func registered(_ isRegistered: Bool) {
    if isRegistered, doesWithout {
      Log.shared.notice(
        "Another program has GATT handles of ours; phones that remember them may need: systemctl restart bluetooth")
    }
    if !isRegistered { doesWithout = false }
  }

  subscript(id: CharacteristicID) -> ServedCharacteristic? { characteristics[id] }

  /// Whether it has values for clients that never subscribe.
  var reachesAll: Bool { characteristics.values.contains { $0.canNotify && $0.reach == .exact } }

  /// A link has come up, whose peer may write.
  func opened(_ link: LinkID) {
    for characteristic in characteristics.values { characteristic.writeOffer?.opened(link) }
  }

  /// The service says that a client will stream.
  func expectStream(from link: LinkID) {
    for characteristic in characteristics.values { characteristic.writeOffer?.expectStream(from: link) }
  }

  /// A peer has connected that has no link in the table.
  func expectUnlinkedPeers() {
    for characteristic in characteristics.values { characteristic.writeOffer?.expectUnlinkedPeers() }
  }

  /// A link has ended, and with it the subscriptions of its client.
  func forget(_ link: LinkID) {
    for characteristic in characteristics.values { characteristic.forget(link) }
  }

  /// Takes it off the bus.
  func close() {
    leavingTimer = nil
    registration.close()
    for characteristic in characteristics.values { characteristic.close() }
    for object in objects { object.cancel() }
  }
}
