import Common
import DBus
import Journal
import Loop
import Radio

/// A GATT application on the bus: its object manager, services and characteristics, and its registration.
@LoopActor
final class ServedApplication {
  let number: ApplicationID
  /// The path of the object manager; services and characteristics are below it.
  let path: ObjectPath
  let registration: KeptRegistration
  /// The characteristics by ID; of duplicates in a service the first.
  private(set) var characteristics: [CharacteristicID: ServedCharacteristic] = [:]
  let wantsFastLinks: Bool
  let services: Set<BluetoothUUID>
  /// Whether it may request handles: bluetoothd supports that, and at least one service has an offset.
  private let hasOffsets: Bool
  private var objects: [ExportedObject] = []
  /// The handles that bluetoothd is asked to assign.
  var block: HandleBlock?
  /// Whether the registration requests no handles, because bluetoothd has refused them.
  private var doesWithout = false
  /// Ends the wait for the end of the clients' links, while the application is being removed.
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
            // With 0 bluetoothd chooses a handle, and writes it to the property; the characteristics store what they
            // need.
            Property(
              "Handle", "q", emits: .none, get: { [weak self] in .uint16(self?.handle(of: service) ?? 0) },
              set: { _ in }),
          ])
      ], manager: path)
  }

  /// Registers it on another adapter from now on; nil for none.
  func aim(at place: Place?) {
    doesWithout = false
    registration.aim(at: place)
  }

  // MARK: Handles

  private func handle(of service: GATTService) -> UInt16? {
    guard wantsHandles, let block else { return nil }
    return service.handleOffset.map { block.handle(at: $0) }
  }

  /// Whether the next registration requests handles.
  var wantsHandles: Bool { hasOffsets && !doesWithout }

  /// Handles a refusal by bluetoothd. Another program's service may use one of the handles, so the next registration requests none. If that
  /// is refused, too, the cause is another one, and the registration after it requests handles again.
  ///
  /// - Returns: whether the next registration requests no handles.
  func doesWithoutHandles(after error: DBusError) -> Bool {
    doesWithout = hasOffsets && error.name == BlueZName.Failure.failed && !doesWithout
    return doesWithout
  }

  /// bluetoothd has registered the application, or has dropped it: the next registration then requests handles again.
  func registered(_ isRegistered: Bool) {
    if isRegistered, doesWithout {
      Log.shared.notice(
        "Another program has GATT handles of ours; phones that remember them may need: systemctl restart bluetooth")
    }
    if !isRegistered { doesWithout = false }
  }

  subscript(id: CharacteristicID) -> ServedCharacteristic? { characteristics[id] }

  /// Whether it sends values to clients that never subscribe.
  var reachesAll: Bool { characteristics.values.contains { $0.canNotify && $0.reach == .exact } }

  /// A link has come up, whose peer may write.
  func opened(_ link: LinkID) {
    for characteristic in characteristics.values { characteristic.writeOffer?.opened(link) }
  }

  /// The service expects a client to stream.
  func expectStream(from link: LinkID) {
    for characteristic in characteristics.values { characteristic.writeOffer?.expectStream(from: link) }
  }

  /// A peer without a link in the table has connected.
  func expectUnlinkedPeers() {
    for characteristic in characteristics.values { characteristic.writeOffer?.expectUnlinkedPeers() }
  }

  /// A link has ended, together with its client's subscriptions.
  func forget(_ link: LinkID) {
    for characteristic in characteristics.values { characteristic.forget(link) }
  }

  /// Removes the application from the bus.
  func close() {
    leavingTimer = nil
    registration.close()
    for characteristic in characteristics.values { characteristic.close() }
    for object in objects { object.cancel() }
  }
}
