import Common
import DBus
import Journal
import Loop
import Radio

/// The scans of this program: one discovery of bluetoothd's for all of them, for as long as there is one.
@LoopActor
final class Scanner {
  private final class Scan {
    let services: Set<BluetoothUUID>
    let handler: @LoopActor (Sighting) -> Void
    /// What each advertiser was last reported as.
    var reported: [ObjectPath: UInt64] = [:]

    init(_ services: [BluetoothUUID], _ handler: @escaping @LoopActor (Sighting) -> Void) {
      self.services = Set(services)
      self.handler = handler
    }

    func wants(_ offered: Set<BluetoothUUID>) -> Bool {
      services.isEmpty || !services.isDisjoint(with: offered)
    }
  }

  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let onChange: @LoopActor () -> Void
  private var place: Place?
  private var discovery: KeptRegistration?
  private var scans: [Int: Scan] = [:]
  private var lastScan = 0
  private var sightings = Sightings()
  /// Peers of which bluetoothd knows by our discovery.
  private var found: Set<ObjectPath> = []

  /// As many as bluetoothd's peers that are remembered.
  private static let foundLimit = 4096

  /// - Parameter onChange: called when `problem` changed.
  init(
    _ bus: BusConnection, scheduler: any Scheduler, counters: BlueZCounters, onChange: @escaping @LoopActor () -> Void
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.onChange = onChange
  }

  /// Why it does not scan, and what to do; nil when it does, or is not asked to.
  var problem: String? { discovery?.problem }

  // MARK: What is wanted

  /// Scans at `place` from now on; every advertiser is new there.
  func aim(at place: Place?) {
    self.place = place
    sightings.removeAll()
    found = []
    for scan in scans.values { scan.reported = [:] }
    discovery?.aim(at: place)
  }

  /// Reports the advertisers of `services`, or all of them if that is empty, until the registration goes.
  func scan(for services: [BluetoothUUID], _ handler: @escaping @LoopActor (Sighting) -> Void) -> Registration {
    lastScan += 1
    let id = lastScan
    scans[id] = Scan(services, handler)
    if discovery == nil {
      discover()
    } else {
      // The controller need not tell again of those whom others have been told of.
      EventLoop.shared.soon { [weak self] in self?.catchUp(id) }
    }
    return Registration { [weak self] in self?.end(id) }
  }

  private func discover() {
    let discovery = KeptRegistration(
      .discovery, .root, bus: bus, scheduler: scheduler, willRegister: { [weak self] in self?.setFilter() },
      onChange: { [weak self] in self?.onChange() })
    self.discovery = discovery
    discovery.aim(at: place)
  }

  private func end(_ id: Int) {
    guard scans.removeValue(forKey: id) != nil, scans.isEmpty else { return }
    let hadProblem = problem != nil
    discovery?.close()
    discovery = nil
    sightings.removeAll()
    if hadProblem { onChange() }
  }

  /// bluetoothd's own filter by services would hide what comes without their list: a scan response. An empty pattern has
  /// it report also those that are not discoverable, which a scan response alone never is; `DuplicateData` has it tell
  /// all of a report, and not only what changed.
  private func setFilter() {
    guard let place else { return }
    let filter: [String: DBusValue] = [
      "Transport": .string("le"), "DuplicateData": .bool(true), "Pattern": .string(""),
    ]
    bus.call(
      place.owner, place.adapter, BlueZName.adapter, "SetDiscoveryFilter", [.options(filter)],
      timeout: KeptRegistration.timeLimit
    ) { result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("SetDiscoveryFilter was answered with \(error)")
    }
  }

  // MARK: What is heard

  /// bluetoothd told something of a peer.
  ///
  /// - Parameter isNew: whether bluetoothd did not know the peer before.
  func report(_ device: Device, _ properties: [String: DBusValue], isNew: Bool) {
    guard discovery != nil, let place, device.path.isWithin(place.adapter) else { return }
    var malformed: UInt64 = 0
    let report = AdvertisingReport(properties, malformed: &malformed)
    counters.malformed += malformed
    guard let report else { return }
    if isNew, !device.isConnected, found.count < Self.foundLimit { found.insert(device.path) }
    // Whom nobody asked for is not remembered, or a crowd would push out those who were.
    let offered = Set(device.serviceUUIDs + report.serviceData.map(\.service))
    guard scans.values.contains(where: { $0.wants(offered) }) || sightings.holds(device.path) else { return }
    let (sighting, revision) = sightings.hear(report, of: device, at: scheduler.now)
    for id in scans.keys.sorted() { tell(id, of: sighting, at: device.path, revision) }
  }

  /// bluetoothd has forgotten a peer.
  func forget(_ device: ObjectPath) {
    sightings.forget(device)
    found.remove(device)
    for scan in scans.values { scan.reported[device] = nil }
  }

  /// Whether bluetoothd knows a peer by our discovery, so that nobody misses it when it is forgotten.
  func hasFound(_ device: ObjectPath) -> Bool { found.contains(device) }

  private func catchUp(_ id: Int) {
    for (path, sighting, revision) in sightings.fresh(at: scheduler.now) { tell(id, of: sighting, at: path, revision) }
  }

  private func tell(_ id: Int, of sighting: Sighting, at path: ObjectPath, _ revision: UInt64) {
    guard let scan = scans[id], scan.reported[path] != revision,
      scan.wants(Set(sighting.serviceUUIDs + sighting.serviceData.map(\.service)))
    else { return }
    // Bounded as the sightings are: who was pushed out there is new when it is heard again.
    if scan.reported.count >= 2 * Sightings.limit { scan.reported = [:] }
    scan.reported[path] = revision
    scan.handler(sighting)
  }
}
