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
  public weak var delegate: (any RadioDriverDelegate)?

  let bus: BusConnection
  let scheduler: any Scheduler
  let doors: KernelDoors
  let version: BlueZVersion?
  /// Whether public messages may be sent over D-Bus, as exactly as bluetoothd can, if there is no management socket.
  let isDegradable: Bool
  /// Whether bluetoothd requests a separate socket for each client that subscribes (from 5.76 on).
  let keepsClientsApart: Bool
  /// bluetoothd's configuration file, read each time that bluetoothd starts or stops.
  private(set) var configuration: DaemonConfiguration
  private let readConfiguration: @LoopActor () -> DaemonConfiguration
  /// The command line of the running bluetoothd; nil if unknown.
  var commandLine: DaemonCommandLine?
  /// The unique name of the bluetoothd whose command line was requested last.
  var askedOwner: String?
  let links = LinkTable()
  let daemon: BluetoothDaemon
  private(set) lazy var advertising = makeAdvertising()
  private(set) lazy var scanner: Scanner = Scanner(
    bus, doors.management.way, scheduler: scheduler, counters: counters,
    isDegraded: isDegradable, isConnecting: { [weak self] in self?.central.isConnecting ?? false }, log: log,
    onChange: { [weak self] in self?.statusMayHaveChanged() },
    onPacket: { [weak self] in self?.delegate?.heard($0) }, onSighting: { [weak self] in self?.delegate?.heard($0) })
  private(set) lazy var central: Central = Central(
    bus, scheduler: scheduler, counters: counters, links: links, bearers: bearers,
    known: { [weak self] in self?.daemon.devices[$0] },
    open: { [weak self] in self?.open($0) }, wasFound: { [weak self] in self?.scanner.hasFound($0) ?? false })
  private(set) lazy var speed = LinkSpeed(
    doors.management, preferences, scheduler: scheduler, onChange: { [weak self] in self?.speedChanged() })
  private(set) lazy var pulse = pace.map { pace in
    DaemonPulse(bus, scheduler: scheduler, pace: pace, onChange: { [weak self] in self?.statusMayHaveChanged() })
  }
  private lazy var blocks = BlockWatch(
    scheduler, readBlock, onChange: { [weak self] in self?.statusMayHaveChanged() })
  /// The adapter in use.
  private(set) var place: Place?
  var applications: [ApplicationID: ServedApplication] = [:]
  /// Applications that are removed when the links of their clients have ended.
  var leaving: [ServedApplication] = []
  var successors: [Successor] = []
  /// The handles of the latest registration.
  var handles = HandleBlock.random()
  /// Links that bluetoothd has not confirmed.
  var doubts: [LinkID: Registration] = [:]
  /// Which end made each link of the adapter in use, as the kernel reported.
  var directions = ConnectionDirections()
  var window = SignalWindow()
  var isQuestionDue = false
  /// Values whose signals bluetoothd may not have handled yet, and that one client must receive even if its
  /// subscription changes.
  var unsettled: [UnsettledSignal] = []
  /// The error of raw HCI, if it is not transient.
  var rawFailure: String?
  var toldSlots = 1
  var isSlotCountDue = false

  private let wanted: String?
  private let preferences: LinkPreferences
  private let repair: KernelRepair
  private let pace: DaemonPulse.Pace?
  private let readBlock: BlockWatch.Read
  let log: Log
  private lazy var journal = SituationJournal(log, scheduler: scheduler)
  /// The sentences about the speed of links that are already in the journal.
  var toldSpeed: Set<String> = []
  private var registrations: [Registration] = []
  private var toldStatus: RadioStatus?
  private var reported: Situation?
  private var isStatusDue = false
  private var patience = Patience.unused
  private var patienceTimer: Registration?

  /// Whether an adapter still has time to become complete.
  private enum Patience { case unused, running, over }
  private static let patienceTime = Duration.seconds(3)

  static let root: ObjectPath = "/org/earshot"

  /// Starts to watch bluetoothd; the bus need not be connected yet.
  ///
  /// The driver inserts itself before `bus.objects.authorize`, so that only bluetoothd can call the driver's objects. A program that
  /// replaces `authorize` later must call `refusal(of:)` first.
  ///
  /// - Parameters:
  ///   - adapter: a name (`hci0`) or an address; nil for the first adapter that is on and can be a peripheral.
  ///   - knownVersion: bluetoothd's version; nil if unknown. The driver then treats bluetoothd as older than 5.76, without reporting the
  ///     limits of old versions.
  ///   - configuration: reads bluetoothd's configuration, each time that bluetoothd starts or stops.
  ///   - doors: the kernel channels. With the management socket the kernel sends exact advertisements; without it bluetoothd sends them as
  ///     exactly as it can.
  ///   - links: preferences for new links while an application requests fast links.
  ///   - isDegradable: whether public messages are sent and received over D-Bus, which alters them, if there is no management socket.
  ///   - startsDaemon: whether to ask the bus to start bluetoothd if it does not run.
  ///   - repair: whether the kernel supports values over raw HCI.
  ///   - pace: when an unresponsive bluetoothd is pinged; nil: never.
  ///   - block: reads the rfkill block of an adapter, given the adapter's name.
  ///   - log: receives each change of the status once.
  public init(
    bus: BusConnection, adapter: String? = nil, scheduler: any Scheduler = EventLoop.shared,
    knownVersion: BlueZVersion? = nil,
    configuration: @escaping @LoopActor () -> DaemonConfiguration = { DaemonConfiguration() },
    doors: KernelDoors = KernelDoors(), links: LinkPreferences = .kernel,
    isDegradable: Bool = false, startsDaemon: Bool = true,
    repair: KernelRepair = .known(.running), pace: DaemonPulse.Pace? = DaemonPulse.Pace(),
    block: @escaping BlockWatch.Read = { RadioBlock.installed($0) }, log: Log = .shared
  ) {
    self.bus = bus
    self.scheduler = scheduler
    wanted = adapter
    preferences = links
    self.repair = repair
    self.pace = pace
    readBlock = block
    version = knownVersion
    readConfiguration = configuration
    self.configuration = configuration()
    keepsClientsApart = knownVersion.map { $0 >= BlueZLimit.separateClients } ?? false
    self.doors = doors
    self.isDegradable = isDegradable && doors.management.way == nil
    self.log = log
    daemon = BluetoothDaemon(bus, scheduler: scheduler, counters: counters, starts: startsDaemon)
    daemon.onSignal = { [weak self] in self?.pulse?.heard() }
    daemon.onChange = { [weak self] in self?.daemonChanged() }
    daemon.onDevice = { [weak self] in self?.deviceChanged($0, wasConnected: $1) }
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
          directions.heard(event)
          heardOfLinks(event)
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
    if let raw = doors.raw.way {
      registrations.append(
        raw.onRoom { [weak self] address, index in
          guard let self, index == place?.index, let link = link(at: address) else { return }
          delegate?.hasRoom(link.id)
        })
      registrations.append(raw.onConfiguration { [weak self] in self?.configured($0) })
    }
  }

  // MARK: Status

  public var status: RadioStatus {
    let situation = situation
    return RadioStatus(
      situation.state, reason: situation.reason, adapters: adapterNames,
      stack: version.map { "BlueZ \($0), \(BlueZLimit.way(keepsClientsApart))" } ?? "BlueZ",
      limits: BlueZLimit.sentences(
        version, configuration, commandLine, hasManagement: doors.management.way != nil)
        + [doors.raw.way.flatMap { _ in repair.limit }].compactMap { $0 } + speed.problems,
      traits: traits)
  }

  /// Whether bluetoothd is asked for specific handles (docs/bluez.md, "Handles").
  var choosesHandles: Bool { version.map { $0 >= BlueZLimit.handles } ?? false }

  /// Whether the kernel supports raw HCI values for clients to which it sends, too.
  var bearsRaw: Bool { repair == .present }

  private var bearers: Bearers {
    Bearers(areSeveral: configuration.opensChannels(version), losesLongWrites: losesLongWrites)
  }

  private var losesLongWrites: Bool { version.map { $0 < BlueZLimit.longWrites } ?? true }

  private var traits: RadioTraits {
    var traits = RadioTraits()
    traits.keepsClientsApart = keepsClientsApart
    if losesLongWrites { traits.longestWrite = Bearers.shortWrite + 1 }
    if isDegradable { traits.packetShortfall = shortfallWords.packets }
    traits.deafness = scanner.deafness
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
  func commands(for adapter: Adapter) -> AdapterCommands {
    AdapterCommands(adapter, isOnly: daemon.adapters.count < 2)
  }

  /// The first fault that stops a function; without a fault, the limitations.
  private var problems: [String] {
    let served = servedInOrder.lazy.compactMap(\.registration.problem).first
    if let first = served ?? advertising.problem ?? scanner.problem { return [first] }
    let packets = isDegradable && scanner.listensForPatterns ? shortfallWords.packets : nil
    return [advertising.shortfall, packets, rawShortfall].compactMap { $0 }
  }

  private var servedInOrder: [ServedApplication] {
    applications.sorted { $0.key.number < $1.key.number }.map(\.value)
  }

  /// Reports a changed status at the end of this loop iteration. Changes within one iteration are reported once, and
  /// the delegate is not called from within its own call.
  func statusMayHaveChanged() {
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
        (window, unsettled) = (SignalWindow(), [])
        configuration = readConfiguration()
        askForCommandLine()
        central.bearers = bearers
      }
      self.place = place
      directions = ConnectionDirections()
      central.aim(at: place)
      closeLinks()
      openRawHCI()
      for application in servedInOrder { application.aim(at: place) }
      advertising.aim(at: place)
      scanner.aim(at: place)
      speed.aim(at: place?.index)
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

  // MARK: Raw HCI

  /// Opens raw HCI for the controller in use.
  private func openRawHCI() {
    guard let raw = doors.raw.way else { return }
    raw.closeAll()
    rawFailure = nil
    guard let index = place?.index else { return }
    do throws(HCIError) {
      try raw.open(index)
    } catch {
      Log.shared.debug("Raw HCI cannot be used: \(error)")
      note(error)
    }
  }

  /// Stores a permanent error of raw HCI. A transient error does not make the radio degraded: the next value may
  /// succeed, and bluetoothd reports a controller or link that is gone.
  func note(_ error: HCIError) {
    guard !error.isPassing else { return }
    rawFailure = error.description
    statusMayHaveChanged()
  }

  /// Why clients without a subscription receive no values, and what to do; nil if they do, or if no application sends
  /// such values.
  private var rawShortfall: String? {
    let reason =
      switch doors.raw {
      case .off: nil as String?
      case .open: rawFailure
      case .shut(let why): why
      }
    guard let reason, applications.values.contains(where: \.reachesAll) else { return nil }
    return "Clients that never subscribe get no values (\(reason)). \(KernelDoors.remedy("CAP_NET_RAW")),"
      + " or NotifyUnsubscribed=no."
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

  func isFromBluetoothd(_ call: MethodCall) -> Bool {
    daemon.owner != nil && call.sender == daemon.owner
  }

  private func isOwn(_ path: ObjectPath) -> Bool {
    (applications.values + leaving).contains { path.isWithin($0.path) } || advertising.owns(path)
  }
}
