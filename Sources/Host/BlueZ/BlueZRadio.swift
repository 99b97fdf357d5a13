import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The radio driver for BlueZ: it uses bluetoothd over D-Bus, and the kernel for functions that bluetoothd lacks.
///
/// Advertisements, applications and scans stay set until they are withdrawn, also across restarts of bluetoothd and
/// returns of the adapter. Links end with either.
@LoopActor
public final class BlueZRadio: RadioDriver {
  public let counters = BlueZCounters()
  public weak var delegate: (any RadioDriverDelegate)? {
    didSet { (links.delegate, server.delegate) = (delegate, delegate) }
  }

  private let bus: BusConnection
  private let scheduler: any Scheduler
  private let doors: KernelChannels
  private let version: BlueZVersion?
  /// Whether bluetoothd may send non-connectable advertisements when the kernel's management socket is unavailable.
  /// bluetoothd alters them.
  private let isDegradable: Bool
  /// bluetoothd's configuration file, read each time that bluetoothd starts or stops.
  private var configuration: DaemonConfiguration
  private let readConfiguration: @LoopActor () -> DaemonConfiguration
  /// The command line of the running bluetoothd; nil if unknown.
  private var commandLine: DaemonCommandLine?
  /// The unique name of the bluetoothd whose command line was requested last.
  private var askedOwner: String?
  /// Whether the journal has an entry about the battery plugin of the last bluetoothd whose command line is known.
  private var isBatteryReported = false
  let daemon: BluetoothDaemon
  let links: PeerLinks
  private lazy var server = GATTServer(
    bus, scheduler: scheduler, counters: counters, daemon: daemon, links: links, raw: doors.raw, repair: repair,
    version: version, onChange: { [weak self] in self?.statusMayHaveChanged() })
  private lazy var advertising = makeAdvertising()
  private lazy var scanner: Scanner = Scanner(
    bus, doors.management.way, scheduler: scheduler, counters: counters,
    isDegraded: isDegradable, isConnecting: { [weak self] in self?.central.isConnecting ?? false }, log: log,
    onChange: { [weak self] in self?.statusMayHaveChanged() },
    onPacket: { [weak self] in self?.delegate?.heard($0) }, onScanResult: { [weak self] in self?.delegate?.heard($0) })
  private lazy var central: Central = Central(
    bus, scheduler: scheduler, counters: counters, daemon: daemon, links: links, bearers: bearers,
    wasFound: { [weak self] in self?.scanner.hasFound($0) ?? false })
  private lazy var speed = LinkSpeed(
    doors.management, preferences, scheduler: scheduler, onChange: { [weak self] in self?.speedChanged() })
  private let openStreams = OpenStreams()
  private lazy var streams = StreamServer(
    bus, scheduler: scheduler, counters: counters, streams: openStreams,
    onChange: { [weak self] in self?.statusMayHaveChanged() })
  private let streamClient: StreamClient
  private lazy var connectability = Connectability(
    doors.management, scheduler: scheduler, onChange: { [weak self] in self?.statusMayHaveChanged() })
  private lazy var pulse = pace.map { pace in
    DaemonPulse(bus, scheduler: scheduler, pace: pace, onChange: { [weak self] in self?.statusMayHaveChanged() })
  }
  private lazy var blocks = BlockWatch(
    scheduler, readBlock, onChange: { [weak self] in self?.statusMayHaveChanged() })
  /// The adapter in use and the run of bluetoothd; nil without an adapter that can be used.
  private var place: Place?
  private var toldSlots = 1
  private var isSlotCountDue = false

  private let wanted: String?
  private let preferences: LinkPreferences
  private let repair: KernelRepair
  private let pace: DaemonPulse.Pace?
  private let readBlock: BlockWatch.Read
  private let log: Log
  private lazy var journal = SituationJournal(log, scheduler: scheduler)
  /// The sentences about the speed of links that are already in the journal.
  private var toldSpeed: Set<String> = []
  private var registrations: [Registration] = []
  private var toldStatus: RadioStatus?
  private var reported: Situation?
  private var isStatusDue = false
  private var patience = Patience.unused
  private var patienceTimer: Registration?

  /// State of the timer that gives an adapter time to become complete.
  private enum Patience { case unused, running, over }
  private static let patienceTime = Duration.seconds(3)

  /// Starts to watch bluetoothd; the bus need not be connected yet.
  ///
  /// The driver inserts itself before `bus.objects.authorize`, so that only bluetoothd can call the driver's objects. A
  /// program that replaces `authorize` later must call `refusal(of:)` first.
  ///
  /// - Parameters:
  ///   - adapter: a name (`hci0`) or an address; nil for the first adapter that is on and can be a peripheral.
  ///   - knownVersion: bluetoothd's version; nil if unknown. The driver then treats bluetoothd as older than 5.76,
  ///     without reporting the limits of old versions.
  ///   - configuration: reads bluetoothd's configuration, each time that bluetoothd starts or stops.
  ///   - doors: the kernel channels. With the management socket the kernel sends exact advertisements; without it
  ///     bluetoothd sends them as exactly as it can.
  ///   - preferences: for new links while an application requests fast links.
  ///   - isDegradable: whether bluetoothd sends and receives non-connectable advertisements when the kernel's
  ///     management socket is unavailable. bluetoothd alters them.
  ///   - startsDaemon: whether to ask the bus to start bluetoothd if it does not run.
  ///   - repair: whether the kernel supports values over raw HCI.
  ///   - classic: opens sockets to peers over BR/EDR.
  ///   - safety: whether the kernel withstands that.
  ///   - pace: when an unresponsive bluetoothd is pinged; nil: never.
  ///   - block: reads the rfkill block of an adapter, given the adapter's name.
  ///   - log: receives each change of the status once.
  public init(
    bus: BusConnection, adapter: String? = nil, scheduler: any Scheduler = EventLoop.shared,
    knownVersion: BlueZVersion? = nil,
    configuration: @escaping @LoopActor () -> DaemonConfiguration = { DaemonConfiguration() },
    doors: KernelChannels = KernelChannels(), links preferences: LinkPreferences = .kernel,
    isDegradable: Bool = false, startsDaemon: Bool = true,
    repair: KernelRepair = .known(.running), classic: any ClassicSockets = KernelClassicSockets(),
    safety: ClassicSafety = .known(.running), pace: DaemonPulse.Pace? = DaemonPulse.Pace(),
    block: @escaping BlockWatch.Read = { RadioBlock.installed($0) }, log: Log = .shared
  ) {
    self.bus = bus
    self.scheduler = scheduler
    wanted = adapter
    self.preferences = preferences
    self.repair = repair
    self.pace = pace
    readBlock = block
    version = knownVersion
    readConfiguration = configuration
    self.configuration = configuration()
    self.doors = doors
    self.isDegradable = isDegradable && doors.management.way == nil
    self.log = log
    streamClient = StreamClient(
      classic, scheduler: scheduler, counters: counters, streams: openStreams, safety: safety)
    daemon = BluetoothDaemon(bus, scheduler: scheduler, counters: counters, starts: startsDaemon)
    links = PeerLinks(bus, scheduler: scheduler, counters: counters, daemon: daemon, doors: doors)
    (links.maker, links.server) = (central, server)
    links.renewAdvertisements = { [weak self] in self?.advertising.renew() }
    daemon.onSignal = { [weak self] in self?.pulse?.heard() }
    daemon.onChange = { [weak self] in self?.daemonChanged() }
    daemon.onDevice = { [weak self] in self?.links.deviceChanged($0, wasConnected: $1) }
    daemon.onReport = { [weak self] device, properties, isNew in
      self?.scanner.report(device, properties, isNew: isNew)
      self?.central.changed(device)
    }
    daemon.onRemoved = { [weak self] path in
      self?.central.removed(path)
      self?.scanner.forget(path)
      guard let self, let place, path.isWithin(place.adapter), let device = Device(path) else { return }
      delegate?.forgot(device.address)
    }
    daemon.onCharacteristicRemoved = { [weak self] in self?.central.removed(characteristic: $0) }
    let others = bus.objects.authorize
    bus.objects.authorize = { [weak self] call in
      guard let self else { return others?(call) }
      guard let others else { return refusal(of: call) }
      return isOwn(call.path) ? refusal(of: call) : others(call)
    }
    watchKernel()
    daemon.start()
  }

  private func watchKernel() {
    if let socket = doors.management.way {
      registrations.append(
        socket.onEvent { [weak self] event, index in
          guard let self, index == place?.index else { return }
          links.handle(event)
          switch event {
          case .deviceFound(let report): found(report)
          case .monitoredDeviceFound(let monitored): found(monitored.report)
          case .discovering(let discovering): scanner.heard(discovering)
          default: break
          }
        })
      socket.wantsReport = { [weak self] data, index in
        guard let self, index == place?.index else { return false }
        return scanner.heard(data)
      }
    }
  }

  // MARK: Status

  public var status: RadioStatus {
    let situation = situation
    return RadioStatus(
      situation.state, reason: situation.reason, adapters: adapterNames,
      stack: version.map { "BlueZ \($0), \(BlueZLimit.way(server.keepsClientsApart))" } ?? "BlueZ",
      limits: BlueZLimit.sentences(
        version, configuration, commandLine, hasManagement: doors.management.way != nil)
        + [doors.raw.way.flatMap { _ in repair.limit }].compactMap { $0 } + speed.problems
        + (connectability.isWanted && doors.management.way != nil ? [Self.ownAddress] : []),
      traits: traits)
  }

  private static let ownAddress =
    "Advertisements that are not connectable are sent as connectable and from the adapter's own address while a service "
    + "accepts streams."

  private var bearers: Bearers {
    Bearers(areSeveral: configuration.opensChannels(version), losesLongWrites: losesLongWrites)
  }

  private var losesLongWrites: Bool { version.map { $0 < BlueZLimit.longWrites } ?? true }

  private var traits: RadioTraits {
    var traits = RadioTraits()
    traits.keepsClientsApart = server.keepsClientsApart
    if losesLongWrites { traits.longestWrite = Bearers.shortWrite + 1 }
    if isDegradable { traits.packetShortfall = shortfallWords.packets }
    traits.deafness = scanner.deafness
    traits.connectingShortfall = streamClient.shortfall
    if !streams.isEmpty {
      traits.acceptingShortfall = streams.problem ?? connectability.problem
      traits.isReachable = streams.isRegistered && connectability.problem == nil
    }
    traits.disclosures = Disclosure.sentences(
      place.flatMap { daemon.adapters[$0.adapter] }, isOnly: daemon.adapters.count == 1, configuration)
    return traits
  }

  public var tallies: [Tally] { counters.tallies }

  private var choice: AdapterChoice {
    AdapterChoice(among: daemon.adapters.values, wanted: wanted, current: place?.adapter)
  }

  private var adapterNames: [String] {
    let names = daemon.adapters.values.map(\.name).sorted()
    guard let inUse = place?.adapter.lastElement else { return names }
    return [inUse] + names.filter { $0 != inUse }
  }

  private var situation: Situation {
    switch daemon.presence {
    case .unknown:
      switch bus.state {
      case .connected, .nameUnavailable: return .asking
      case .connecting: return reported == nil ? .asking : .noBus
      case .lost: return .noBus
      case .closed: return .closed
      }
    case .absent: return .noDaemon
    case .asking: return .asking
    case .silent: return .silent
    case .present: break
    }
    switch choice {
    case .none: return .noAdapter
    case .missing: return .adapterMissing(wanted ?? "", others: daemon.adapters.values.map(\.name).sorted())
    case .switchedOff(let adapter):
      let commands = commands(for: adapter)
      guard let block = blocks.block ?? (adapter.isBlocked ? .soft : nil) else { return .switchedOff(commands) }
      return .blocked(commands, block)
    case .unfit(let adapter): return adapter.isComplete || patience == .over ? .unfit(adapter.name) : .asking
    case .usable(let adapter):
      if pulse?.isAnswering == false { return .silent }
      let problems = problems
      return problems.isEmpty ? .ready(adapter.name) : .degraded(adapter.name, reasons: problems)
    }
  }

  /// Commands that an operator types to change the state of an adapter.
  private func commands(for adapter: Adapter) -> AdapterCommands {
    AdapterCommands(adapter, isOnly: daemon.adapters.count < 2)
  }

  /// The first fault that stops a function; without a fault, the limitations.
  private var problems: [String] {
    if let first = server.problem ?? advertising.problem ?? scanner.problem { return [first] }
    let packets = isDegradable && scanner.listensForPatterns ? shortfallWords.packets : nil
    return [advertising.shortfall, packets, server.shortfall].compactMap { $0 }
  }

  /// Reports a changed status at the end of this loop iteration. Changes within one iteration are reported once, and
  /// the delegate is not called from within its own call.
  private func statusMayHaveChanged() {
    guard !isStatusDue else { return }
    isStatusDue = true
    EventLoop.shared.soon { [weak self] in self?.tellStatus() }
  }

  private func tellStatus() {
    isStatusDue = false
    let situation = situation
    guard !situation.isPassing else { return }
    if situation != reported {
      reported = situation
      journal.changed(to: situation)
    }
    let status = status
    guard status != toldStatus else { return }
    toldStatus = status
    delegate?.statusChanged(status)
  }

  // MARK: The adapter in use

  private func daemonChanged() {
    let place = daemon.owner.flatMap { owner in
      choice.adapterInUse.map { Place(owner: owner, adapter: $0.path) }
    }
    bePatient()
    if place != self.place {
      if place?.owner != self.place?.owner {
        server.daemonChanged()
        configuration = readConfiguration()
        askForCommandLine()
        central.bearers = bearers
      }
      self.place = place
      links.aim(at: place)
      central.aim(at: place)
      links.closeAll()
      server.aim(at: place)
      advertising.aim(at: place)
      scanner.aim(at: place)
      speed.aim(at: place?.index)
      openStreams.lose("The Bluetooth adapter is gone.")
      streamClient.endAttempts()
      streams.aim(at: place)
      connectability.aim(at: place?.index)
    }
    if let place, let adapter = daemon.adapters[place.adapter] { advertising.adapterChanged(adapter) }
    if case .switchedOff(let adapter) = choice { blocks.watch(adapter.name) } else { blocks.watch(nil) }
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  /// Gives an incomplete adapter `patienceTime` before it is reported.
  private func bePatient() {
    guard case .unfit(let adapter) = choice, !adapter.isComplete else {
      patience = .unused
      patienceTimer = nil
      return
    }
    guard patience == .unused else { return }
    patience = .running
    patienceTimer = scheduler.schedule(after: Self.patienceTime) { [weak self] in
      self?.patience = .over
      self?.statusMayHaveChanged()
    }
  }

  // MARK: Authorization of callers

  /// The error for a call of one of the driver's objects by another program; nil if bluetoothd is the caller, or if the
  /// object is not the driver's.
  public func refusal(of call: MethodCall) -> DBusError? {
    // Every value of a client arrives by such a call, so the cheap comparison of the sender comes first.
    if isFromBluetoothd(call) {
      pulse?.heard()
      return nil
    }
    guard isOwn(call.path) else { return nil }
    counters.strangers += 1
    return .denied("Only bluetoothd may call \(call.path.string).")
  }

  private func isFromBluetoothd(_ call: MethodCall) -> Bool { daemon.isCaller(of: call) }

  private func isOwn(_ path: ObjectPath) -> Bool {
    server.owns(path) || advertising.owns(path) || streams.owns(path)
  }

  // MARK: Supervision of bluetoothd

  /// Watches whether bluetoothd answers, while an application is registered or a scan is wanted.
  private func lookAfterDaemon() {
    pulse?.watch(!server.isEmpty || scanner.isWanted ? place?.owner : nil)
  }

  /// Reads the command line of the running bluetoothd, once for each bluetoothd: it cannot change while the process
  /// runs.
  private func askForCommandLine() {
    guard daemon.owner != askedOwner else { return }
    (askedOwner, commandLine) = (daemon.owner, nil)
    guard let owner = daemon.owner else { return }
    bus.askForDaemonCommandLine { [weak self] commandLine in
      guard let self, daemon.owner == owner else { return }
      self.commandLine = commandLine
      // Restarts of bluetoothd with the same command line are not news.
      let readsBattery = commandLine?.loads(DaemonCommandLine.battery) == true
      if readsBattery, !isBatteryReported { log.warning("\(BlueZLimit.readsBattery)", id: .pairingAsked) }
      isBatteryReported = readsBattery
      statusMayHaveChanged()
    }
  }

  // MARK: Advertisements

  // The kernel sends them exactly as encoded if the management socket is open; otherwise bluetoothd sends them as
  // exactly as it can.

  public var advertisingSlots: Int { advertising.slots }

  public var foreignAdvertisements: Int { advertising.foreign }

  public func advertise(_ advertisement: Advertisement?, in slot: Int) {
    advertising.show(advertisement, in: slot)
    statusMayHaveChanged()
  }

  /// Reports a changed number of slots at the end of this loop iteration, so that the delegate is not called from
  /// within its own call.
  private func slotsMayHaveChanged() {
    guard !isSlotCountDue else { return }
    isSlotCountDue = true
    EventLoop.shared.soon { [weak self] in
      guard let self else { return }
      isSlotCountDue = false
      guard advertisingSlots != toldSlots else { return }
      toldSlots = advertisingSlots
      delegate?.advertisingSlotsChanged()
    }
  }

  /// Reports the changed advertisement of a slot at the end of this loop iteration, so that the delegate is not called
  /// from within its own call.
  private func onAirChanged(_ advertisement: Advertisement?, _ slot: Int) {
    EventLoop.shared.soon { [weak self] in self?.delegate?.onAir(advertisement, in: slot) }
  }

  private var shortfallWords: ShortfallWords {
    var reason: String?
    if case .shut(let why) = doors.management { reason = why }
    return ShortfallWords(version: version, management: reason, isDegradable: isDegradable)
  }

  private func makeAdvertising() -> any AdvertisingWay {
    if let socket = doors.management.way {
      return ManagedAdvertising(
        socket, scheduler: scheduler,
        commands: { [weak self] in
          guard let self, let adapter = place.flatMap({ daemon.adapters[$0.adapter] }) else { return nil }
          return commands(for: adapter)
        },
        isConnectableByUs: { [weak self] in self?.connectability.isWanted ?? false },
        onChange: { [weak self] in self?.statusMayHaveChanged() },
        onSlots: { [weak self] in self?.slotsMayHaveChanged() },
        onAir: { [weak self] in self?.onAirChanged($0, $1) })
    }
    return RegisteredAdvertising(
      bus, scheduler: scheduler, words: shortfallWords,
      isFromBluetoothd: { [weak self] in self?.isFromBluetoothd($0) ?? false },
      onChange: { [weak self] in self?.statusMayHaveChanged() },
      onSlots: { [weak self] in self?.slotsMayHaveChanged() },
      onAir: { [weak self] in self?.onAirChanged($0, $1) })
  }

  // MARK: Scan results

  // Advertisers as bluetoothd and this driver combine them, or single packets from the kernel. The kernel reports
  // packets as Adv Monitor Device Found without a discovery, and as Device Found during a discovery.

  /// The reason why single packets are not reported; nil if they are. The management socket reports each packet,
  /// bluetoothd only changes.
  public var deafness: String? {
    doors.management.way != nil || isDegradable ? nil : shortfallWords.deafness
  }

  public func listen(_ listening: Listening?) {
    scanner.listen(listening)
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  /// Handles an advertiser that the kernel received during a discovery of ours or of another program.
  private func found(_ report: AdvertisingReport) {
    guard let packet = AdvertisingPacket(report, at: scheduler.now) else { return }
    delegate?.heard(packet)
  }

  // MARK: Speed of new links

  // It is a setting of the adapter for all programs, which `LinkSpeed` changes while an application needs it.

  /// Applies preferences that a reload changed.
  public func prefer(_ links: LinkPreferences) { speed.prefer(links) }

  /// Restores the adapter's former settings, removes the advertisement monitor, waits for applications that are being
  /// removed, and calls `then` once. The call follows at the latest after `limit`, or after 3 s if that is longer.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    let end = scheduler.now.advanced(by: limit)
    scanner.rest(within: limit) { [weak self] in
      guard let self else { return then() }
      connectability.rest(within: max(.zero, scheduler.now.duration(to: end))) { [weak self] in
        guard let self else { return then() }
        speed.rest(within: max(.zero, scheduler.now.duration(to: end))) { [weak self] in
          if let self { server.afterLeaving(then) } else { then() }
        }
      }
    }
  }

  /// Reports problems with the speed of links in the status, and each one once in the journal.
  private func speedChanged() {
    for sentence in speed.problems where toldSpeed.insert(sentence).inserted {
      log.warning("\(sentence)", id: .linksSlow)
    }
    statusMayHaveChanged()
  }

  // MARK: Applications

  public func serve(_ application: GATTApplication, as number: ApplicationID) {
    if server.serve(application, as: number) { applicationsChanged() }
  }

  public func stopServing(_ number: ApplicationID) {
    if server.stopServing(number) { applicationsChanged() }
  }

  private func applicationsChanged() {
    speed.want(server.wantsFastLinks)
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  public func isServed(_ number: ApplicationID) -> Bool { server.isServed(number) }

  public func expectStream(from link: LinkID, in application: ApplicationID) {
    server.expectStream(from: link, in: application)
  }

  public func allow(_ backlog: Backlog, on id: LinkID) {
    guard let link = links.allow(backlog, on: id) else { return }
    server.limit(link)
    central.limitStreams(of: link)
  }

  public func notify(
    _ value: [UInt8], of id: CharacteristicID, in number: ApplicationID, to recipients: Recipients
  ) -> Delivery {
    server.notify(value, of: id, in: number, to: recipients)
  }

  // MARK: Streams

  public var publicAddress: BluetoothAddress? { place.flatMap { daemon.adapters[$0.adapter]?.address } }

  public func listen(
    on profile: StreamProfile, _ handler: @escaping @LoopActor (any RadioStream) -> Void
  ) throws(RadioError) -> Registration {
    let registration = try streams.listen(on: profile, handler)
    streamsChanged()
    return Registration { [weak self] in
      registration.cancel()
      self?.streamsChanged()
    }
  }

  public func connect(
    to address: BluetoothAddress, on profile: StreamProfile,
    then: @escaping @LoopActor (Result<any RadioStream, RadioError>) -> Void
  ) throws(RadioError) -> Registration {
    guard let place, let adapter = publicAddress else { throw .notReady(status.reason) }
    return try streamClient.connect(to: address, on: profile, from: adapter, at: place, then: then)
  }

  private func streamsChanged() {
    connectability.want(!streams.isEmpty)
    lookAfterDaemon()
    statusMayHaveChanged()
  }

  // MARK: Links

  /// Connects to a peer. bluetoothd waits about 20 s for the peer to advertise, and negotiates the ATT MTU itself;
  /// `exchangeMTU` returns the result.
  ///
  /// `disconnect` of the link cancels an attempt. It ends an open link only if this driver made it, no other `Link` is
  /// open on it, and its peer has used no application. Any other link stays up until `cut` ends it.
  ///
  /// - Throws: `RadioError.notReady` without an adapter, or with too many connections.
  public func connect(
    to address: BluetoothAddress, _ handler: @escaping @LoopActor (LinkEvent) -> Void
  ) throws(RadioError) -> any Link {
    guard let place else { throw .notReady(status.reason) }
    return try central.connect(to: address, at: place, handler)
  }

  /// A link that carries streams counts as another program's, so that it is not ended as unused.
  public func origin(of link: LinkID) -> LinkOrigin {
    if let device = links[link]?.device, openStreams.isUsed(by: device) { return .unknown }
    return links.origin(of: link)
  }

  public func cut(_ link: LinkID) { links.cut(link) }
}

extension AdvertisingPacket {
  // Flags of Device Found: bits 2 and 5. A kernel before 6.2 does not set bit 5.
  private static let notConnectable: UInt32 = 1 << 2
  private static let scanResponse: UInt32 = 1 << 5

  /// Converts a report of the management socket; nil if the report is not from LE.
  ///
  /// The kernel holds a connectable advertisement until its scan response has arrived, and reports both together. A
  /// report without a flag may contain the advertisement, the scan response, or both.
  fileprivate init?(_ report: AdvertisingReport, at time: Instant) {
    let addressKind: AddressKind
    switch report.kind {
    case .classic: return nil
    case .publicAddress: addressKind = .publicAddress
    case .randomAddress: addressKind = .randomAddress
    }
    let kind: Kind =
      report.flags & Self.scanResponse != 0
      ? .scanResponse : report.flags & Self.notConnectable != 0 ? .nonConnectable : .unknown
    self.init(
      address: report.address, addressKind: addressKind, kind: kind, rssi: report.rssi.map(Int.init), time: time,
      data: report.data)
  }
}
