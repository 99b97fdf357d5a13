import Common
import DBus
import Journal
import Loop
import Radio

/// What the radio does as a central: it scans, and makes links to those it has sighted.
@LoopActor
final class Central {
  let scanner: Scanner
  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private var place: Place?
  private var links: [ObjectPath: CentralConnection] = [:]

  /// Links at one time; each may have `WriteWindow.commandLimit` calls unanswered.
  static let linkLimit = 12

  /// - Parameter onChange: called when `problem` changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, onChange: @escaping @LoopActor () -> Void
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    scanner = Scanner(bus, scheduler: scheduler, counters: counters, onChange: onChange)
  }

  var problem: String? { scanner.problem }

  /// Whether a peer is one that we connected to, or are connecting to.
  func holds(_ device: ObjectPath) -> Bool { links[device]?.isOwn == true }

  // MARK: What bluetoothd tells

  func aim(at place: Place?) {
    self.place = place
    for link in links.values.sorted(by: { $0.id.number < $1.id.number }) { link.lost("The Bluetooth adapter is gone.") }
    scanner.aim(at: place)
  }

  func report(_ device: Device, _ properties: [String: DBusValue], isNew: Bool) {
    scanner.report(device, properties, isNew: isNew)
    links[device.path]?.changed(device)
  }

  func removed(_ device: ObjectPath) {
    links[device]?.lost("bluetoothd has forgotten the peer.")
    scanner.forget(device)
  }

  // MARK: Links

  /// - Parameter known: what bluetoothd says of the peer; nil where it does not know it.
  /// - Throws: `RadioError.notReady` without an adapter or with too many links.
  func connect(
    to address: BluetoothAddress, known: (ObjectPath) -> Device?, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard let place else { throw .notReady("There is no Bluetooth adapter to connect with.") }
    let path = Device.path(of: address, at: place.adapter)
    guard links.count < Self.linkLimit else { throw .notReady("There are \(Self.linkLimit) links already.") }
    guard let device = known(path) ?? Device(path) else { throw .notReady("\(address) is not an address.") }
    let connection = CentralConnection(
      to: device, at: place, on: bus, scheduler: scheduler, counters: counters, handler: handler,
      onCut: { [weak self] in self?.forget($0) }, onClosed: { [weak self] in self?.closed($0) })
    if links[path] != nil {
      connection.refuse("There is a connection to \(address) already.")
    } else if known(path) == nil {
      connection.refuse("bluetoothd does not know \(address): it was not sighted, or is forgotten.")
    } else {
      links[path] = connection
      connection.start()
    }
    return CentralLink(connection)
  }

  private func closed(_ connection: CentralConnection) {
    guard links[connection.device] === connection else { return }
    links[connection.device] = nil
  }

  /// bluetoothd keeps whom somebody connected to for ever, with all that it served. One that we brought is taken away
  /// again: the next time it may serve something else, and most peers come once, under an address of the day.
  ///
  /// It is not waited for that the link has ended, which takes bluetoothd some seconds: the program may be gone by then.
  private func forget(_ connection: CentralConnection) {
    guard links[connection.device] === connection, connection.isOwn, !connection.isBound, connection.place == place,
      scanner.hasFound(connection.device)
    else { return }
    bus.call(
      connection.place.owner, connection.place.adapter, BlueZName.adapter, "RemoveDevice",
      [.objectPath(connection.device)]
    ) { result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("RemoveDevice was answered with \(error)")
    }
  }
}
