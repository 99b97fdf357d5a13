import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The scan: one discovery of bluetoothd while the delegate requests advertisers or all packets, and the kernel's
/// monitor for packets that match patterns.
@LoopActor
final class Scanner {
  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let counters: BlueZCounters
  private let onChange: @LoopActor () -> Void
  private let onScanResult: @LoopActor (ScanResult) -> Void
  private var place: Place?
  private var listening: Listening?
  private var discovery: PersistentRegistration?
  private let monitor: PatternMonitor?
  private let socket: ManagementSocket?
  private var watch = ScanWatch()
  private lazy var silence = Deadline(scheduler) { [weak self] in self?.nothingHeard() }
  /// Whether the radio is connecting. The kernel executes no other command for the controller at that time.
  private let isConnecting: @LoopActor () -> Bool
  private let log: Log
  /// Address types of the kernel's current discovery, whichever program started it; nil without a discovery.
  private var discoveredTypes: UInt8?
  /// Whether bluetoothd's reports about advertisers replace single packets.
  private let isDegraded: Bool
  private let onPacket: @LoopActor (AdvertisingPacket) -> Void
  private var scanResults = ScanResults()
  /// Peers that bluetoothd knows because of our discovery.
  private var found: Set<ObjectPath> = []

  /// Maximum found peers, equal to the limit of bluetoothd's peers in `BluetoothDaemon`.
  private static let foundLimit = 4096

  /// - Parameters:
  ///   - socket: the management socket, if there is one.
  ///   - isDegraded: whether names and data from bluetoothd replace the packets that contained them.
  ///   - isConnecting: whether an attempt to connect is under way.
  ///   - log: receives restarts of scanning.
  ///   - onChange: called when `problem` changed.
  ///   - onPacket: called for a packet from bluetoothd's report that the scan accepts.
  ///   - onScanResult: called for an advertiser that the scan accepts.
  init(
    _ bus: BusConnection, _ socket: ManagementSocket?, scheduler: any Scheduler, counters: BlueZCounters,
    isDegraded: Bool, isConnecting: @escaping @LoopActor () -> Bool, log: Log,
    onChange: @escaping @LoopActor () -> Void,
    onPacket: @escaping @LoopActor (AdvertisingPacket) -> Void, onScanResult: @escaping @LoopActor (ScanResult) -> Void
  ) {
    self.bus = bus
    self.scheduler = scheduler
    self.counters = counters
    self.onChange = onChange
    self.onScanResult = onScanResult
    self.onPacket = onPacket
    self.isDegraded = isDegraded
    self.isConnecting = isConnecting
    self.log = log
    self.socket = socket
    monitor = socket.map { PatternMonitor($0, scheduler: scheduler, onChange: onChange) }
  }

  /// The reason why the radio does not scan, and what to do; nil if it scans, or if no scan is requested.
  var problem: String? { discovery?.problem ?? monitor?.problem }

  /// The reason why the kernel does not report single packets, and what to do; nil if it reports them, or if none are
  /// requested.
  var deafness: String? { monitor?.problem }

  /// Whether a service requests scan results.
  var isWanted: Bool { listening != nil }

  /// Whether a service listens for single packets that match patterns.
  var listensForPatterns: Bool { listening?.patterns != nil }

  /// Whether the scan accepts a packet with this data.
  func wants(_ data: ArraySlice<UInt8>) -> Bool { listening?.wants(data) == true }

  /// Records an advertisement that the kernel has received.
  ///
  /// - Returns: whether a service wants it.
  func heard(_ data: ArraySlice<UInt8>) -> Bool {
    noteResult()
    return wants(data)
  }

  // MARK: Requests

  /// Scans on the adapter `place` from now on; all advertisers count as new.
  func aim(at place: Place?) {
    self.place = place
    discoveredTypes = nil
    scanResults.removeAll()
    found = []
    discovery?.aim(at: place)
    monitor?.aim(at: place)
    watchSilence()
  }

  /// Removes the kernel's monitor, and calls `then` once: when that is done, at the latest after `limit`.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    if let monitor { monitor.rest(within: limit, then: then) } else { then() }
  }

  /// Starts, changes or ends the scan.
  func listen(_ listening: Listening?) {
    self.listening = listening
    monitor?.listen(for: listening?.patterns ?? [])
    let wantsDiscovery =
      listening.map { $0.services != nil || $0.patterns.map { $0.isEmpty || isDegraded } ?? false } ?? false
    if !wantsDiscovery {
      discovery?.close()
      discovery = nil
      scanResults.removeAll()
    } else if discovery == nil {
      let discovery = PersistentRegistration(
        .discovery, .root, bus: bus, scheduler: scheduler, willRegister: { [weak self] in self?.setFilter() },
        onChange: { [weak self] in self?.onChange() })
      self.discovery = discovery
      discovery.aim(at: place)
    }
    watchSilence()
  }

  /// Sets bluetoothd's discovery filter. Its filter by services would hide a scan response without the UUID list. The
  /// empty pattern includes advertisers that are not discoverable, as a lone scan response always is. With
  /// `DuplicateData` bluetoothd sends all data of a report, not only changes.
  private func setFilter() {
    guard let place else { return }
    let filter: [String: DBusValue] = [
      "Transport": .string("le"), "DuplicateData": .bool(true), "Pattern": .string(""),
    ]
    bus.call(
      place.owner, place.adapter, BlueZName.adapter, "SetDiscoveryFilter", [.options(filter)],
      timeout: PersistentRegistration.timeLimit
    ) { result in
      guard case .failure(let error) = result else { return }
      Log.shared.debug("bluetoothd answered SetDiscoveryFilter with \(error)")
    }
  }

  // MARK: Results

  /// Handles changed properties of a peer.
  ///
  /// - Parameter isNew: whether bluetoothd did not know the peer before.
  func report(_ device: Device, _ properties: [String: DBusValue], isNew: Bool) {
    guard let listening, let place, device.path.isWithin(place.adapter) else { return }
    if isDegraded, !device.isConnected {
      for data in DeviceReport.structures(properties) where wants(data[...]) {
        onPacket(
          AdvertisingPacket(
            address: device.address, addressKind: .randomAddress, kind: .unknown,
            rssi: properties["RSSI"]?.asInteger, time: scheduler.now, data: data))
      }
    }
    var malformed: UInt64 = 0
    let report = DeviceReport(properties, malformed: &malformed)
    counters.malformed += malformed
    guard let report else { return }
    noteResult()
    if isNew, !device.isConnected { find(device.path) }
    guard let services = listening.services else { return }
    // An advertiser of other services is not stored, so that many of them cannot displace requested ones.
    let offered = Set(device.serviceUUIDs + report.serviceData.map(\.service))
    guard services.isEmpty || !services.isDisjoint(with: offered) || scanResults.holds(device.path) else { return }
    let scanResult = scanResults.hear(report, of: device, at: scheduler.now)
    guard services.isEmpty || !services.isDisjoint(with: scanResult.services) else { return }
    onScanResult(scanResult)
  }

  // MARK: Missing results

  /// Records the kernel's report whether any program discovers on the adapter in use.
  func heard(_ discovering: ManagementEvent.Discovering) {
    discoveredTypes = discovering.isOn ? discovering.types : nil
  }

  private func watchSilence() {
    watch.scan(place != nil && listening != nil, at: scheduler.now)
    silence.set(watch.deadline)
  }

  private func noteResult() {
    watch.heard(at: scheduler.now)
    silence.set(watch.deadline)
  }

  private func nothingHeard() {
    defer { silence.set(watch.deadline) }
    guard watch.isDue(at: scheduler.now) else { return }
    guard !isConnecting() else { return watch.postpone(at: scheduler.now) }
    let restart = watch.restart(at: scheduler.now)
    counters.scanRestarts += 1
    let time = ScanWatch.silence.components.seconds
    if restart.isNews {
      log.notice(
        "No advertisement was received for \(time) s, although there were some before: scanning is restarted",
        id: .scanRestarted, .adapter(place?.adapter.lastElement ?? ""))
    }
    if !restart.isFirst { stopKernelDiscovery() }
    discovery?.renew()
    monitor?.renew()
  }

  /// Ends the kernel's discovery for all programs; bluetoothd restarts it for the programs that still want it.
  /// StopDiscovery of bluetoothd would not end the kernel's discovery while another program discovers.
  private func stopKernelDiscovery() {
    guard let socket, let index = place?.index, let types = discoveredTypes else { return }
    socket.call(StopDiscovery(types: types), on: index) { result in
      if case .failure(let failure) = result {
        Log.shared.debug("Management command Stop Discovery failed: \(failure.description)")
      }
    }
  }

  // MARK: Found peers

  private func find(_ device: ObjectPath) {
    // An attacker with invented addresses must not exclude later peers: any stored peer is replaced.
    if found.count >= Self.foundLimit, let other = found.first { found.remove(other) }
    found.insert(device)
  }

  /// Handles a peer that bluetoothd has removed.
  func forget(_ device: ObjectPath) {
    scanResults.forget(device)
    found.remove(device)
  }

  /// Whether bluetoothd knows a peer only from our discovery, so that no other program needs it.
  func hasFound(_ device: ObjectPath) -> Bool { found.contains(device) }
}
