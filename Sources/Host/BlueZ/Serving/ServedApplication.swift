import Common
import DBus
import Journal
import Loop
import Radio

/// A GATT application on the bus: its object manager, its services and characteristics as D-Bus objects, its
/// registration, and the handles that the registration requests.
@LoopActor
final class ServedApplication {
  /// The path of the object manager; services and characteristics are below it.
  let path: ObjectPath
  let registration: PersistentRegistration
  /// The characteristics by ID; for duplicates in a service the first one.
  private(set) var characteristics: [CharacteristicID: ServedCharacteristic] = [:]
  let wantsFastLinks: Bool
  let services: Set<BluetoothUUID>
  /// Whether the application may request handles: bluetoothd supports requests, and at least one service has an offset.
  private let hasOffsets: Bool
  private var objects: [ExportedObject] = []
  /// The handles that bluetoothd is asked to assign.
  private var block: HandleBlock?
  /// Whether the registration requests no handles, because bluetoothd has refused a registration with them.
  private var doesWithout = false

  /// Exports the objects.
  ///
  /// - Parameters:
  ///   - choosesHandles: whether bluetoothd supports requests for handles.
  ///   - hasSockets: whether bluetoothd may request a socket for each client.
  init(
    _ application: GATTApplication, as number: ApplicationID, registration: PersistentRegistration, on tree: ObjectTree,
    daemon: BluetoothDaemon, counters: BlueZCounters, choosesHandles: Bool, hasSockets: Bool
  ) {
    self.registration = registration
    path = registration.path
    wantsFastLinks = application.wantsFastLinks
    services = Set(application.services.map(\.uuid))
    hasOffsets = choosesHandles && application.services.contains { $0.handleOffset != nil }
    tree.exportManager(path)
    for (index, service) in application.services.enumerated() {
      let servicePath = path.child("service\(index)")
      objects.append(export(service, at: servicePath, on: tree))
      for (position, characteristic) in service.characteristics.enumerated() {
        let served = ServedCharacteristic(
          characteristic, in: service.uuid, of: number, at: servicePath.child("char\(position)"), daemon: daemon,
          counters: counters)
        guard characteristics[served.id] == nil else { continue }
        served.export(of: servicePath, manager: path, on: tree, hasSockets: hasSockets)
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

  /// Registers the application on another adapter from now on; nil for none.
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

  /// Sets the handles that the next registration requests.
  func request(_ block: HandleBlock) { self.block = block }

  /// Handles a refusal by bluetoothd. Another program's service may use one of the handles, so the next registration
  /// requests none. If that is refused, too, the cause is another one, and the registration after it requests handles
  /// again.
  ///
  /// - Returns: whether the next registration requests no handles.
  func doesWithoutHandles(after error: DBusError) -> Bool {
    doesWithout = hasOffsets && error.name == BlueZName.Failure.failed && !doesWithout
    return doesWithout
  }

  /// Handles the registration of the application, or its loss: the next registration then requests handles again.
  func registered(_ isRegistered: Bool) {
    if isRegistered, doesWithout {
      Log.shared.notice(
        """
        Another program uses GATT handles that this service had. If phones that stored them fail: systemctl restart \
        bluetooth
        """)
    }
    if !isRegistered { doesWithout = false }
  }

  /// Removes the application from the bus.
  func close() {
    registration.close()
    for characteristic in characteristics.values { characteristic.close() }
    for object in objects { object.cancel() }
  }
}

/// The handles that bluetoothd is asked to assign to this program's services: one of several blocks, used in rotation.
///
/// By itself bluetoothd assigns no handle twice, and from the 1,024th handle on its Database Hash no longer changes.
/// Peers that compare the hash then use their cached database forever. A different block changes the hash, so that
/// peers discover the services again. The blocks end 240 handles before the limit, which leaves these for other
/// programs.
struct HandleBlock: Hashable, Sendable {
  /// Number of handles in a block, for all services of this program.
  static let size: UInt16 = 80
  static let count: UInt16 = 5
  /// The first handle, after those of bluetoothd's own services.
  private static let first: UInt16 = 0x0180

  private let number: UInt16

  /// - Parameter number: any number; it is taken modulo `count`.
  init(number: UInt16) {
    self.number = number % Self.count
  }

  /// A random block, which probably differs from that of the last run.
  static func random() -> HandleBlock { HandleBlock(number: .random(in: 0..<count)) }

  var next: HandleBlock { HandleBlock(number: number + 1) }

  /// The handle of a service at this offset.
  func handle(at offset: UInt16) -> UInt16 { Self.first + number * Self.size + offset }
}
