import Common
import DBus
import HCI
import Journal
import Loop
import Radio

/// The radio on BlueZ: what stands behind the port is bluetoothd, over D-Bus, and the kernel where bluetoothd does not do.
///
/// Advertisements, applications and scans live as long as their handles, whatever becomes of bluetoothd and the adapter
/// meanwhile. Links do not: they end with either.
@LoopActor
public final class BlueZRadio: Radio {
  /// What others did to it.
  public let counters = BlueZCounters()

  let bus: BusConnection
  let scheduler: any Scheduler
  let links = LinkTable()
  let daemon: BluetoothDaemon
  private(set) lazy var central = Central(
    bus, scheduler: scheduler, counters: counters, onChange: { [weak self] in self?.statusMayHaveChanged() })
  private let wanted: String?
  private let version: BlueZVersion?
  let doors: KernelDoors
  private let log: Log
  /// The adapter in use.
  private(set) var place: Place?
  private(set) var applications: [Int: ServedApplication] = [:]
  private var advertisements: [Int: any KeptAdvertisement] = [:]
  /// Links whose only sign of life is a write.
  var doubts: [LinkID: Registration] = [:]
  private var statusHandlers: [(id: Int, handler: @LoopActor (RadioStatus) -> Void)] = []
  private var lastHandler = 0
  private var toldStatus: RadioStatus?
  private var reported: Situation?
  private var isStatusDue = false
  /// What the kernel said against raw HCI.
  var rawFailure: String?
  private var patience = Patience.unused
  private var patienceTimer: Registration?

  /// How long an adapter may take to be complete.
  private enum Patience { case unused, running, over }
  private static let patienceTime = Duration.seconds(3)

  static let root: ObjectPath = "/org/earshot"

  /// Watches bluetoothd from now on; the bus need not be connected yet.
  ///
  /// It puts itself in front of `bus.objects.authorize`, so that nobody but bluetoothd reaches its objects. Whoever
  /// replaces that later asks `refusal(of:)` first.
  ///
  /// - Parameters:
  ///   - adapter: a name (`hci0`) or an address; nil for the first adapter that is on and can be a peripheral.
  ///   - knownVersion: bluetoothd's version, where somebody knows it; without it nothing is said about what an old one
  ///     leaves out in silence.
  ///   - doors: the ways into the kernel. With the management socket it is the kernel that advertises, exactly; without it
  ///     bluetoothd, as exactly as it can.
  ///   - log: where each change of the status is entered, once.
  public init(
    bus: BusConnection, adapter: String? = nil, scheduler: any Scheduler = EventLoop.shared,
    knownVersion: BlueZVersion? = nil, doors: KernelDoors = KernelDoors(), log: Log = .shared
  ) {
    self.bus = bus
    self.scheduler = scheduler
    wanted = adapter
    version = knownVersion
    self.doors = doors
    self.log = log
    daemon = BluetoothDaemon(bus, scheduler: scheduler, counters: counters)
    daemon.onChange = { [weak self] in self?.daemonChanged() }
    daemon.onDevice = { [weak self] in self?.deviceChanged($0, wasConnected: $1) }
    daemon.onReport = { [weak self] in self?.central.report($0, $1, isNew: $2) }
    daemon.onRemoved = { [weak self] in self?.central.removed($0) }
    let others = bus.objects.authorize
    bus.objects.authorize = { [weak self] call in
      guard let self, isOwn(call.path) else { return others?(call) }
      return refusal(of: call)
    }
    daemon.start()
  }

  // MARK: Status

  public var status: RadioStatus {
    let situation = situation
    return RadioStatus(
      situation.state, reason: situation.reason, adapters: adapterNames,
      stack: version.map { "BlueZ \($0)" } ?? "BlueZ",
      limits: BlueZLimit.sentences(version, hasManagement: doors.management.way != nil))
  }

  public var tallies: [Tally] { counters.tallies }

  public func onStatus(_ handler: @escaping @LoopActor (RadioStatus) -> Void) -> Registration {
    lastHandler += 1
    let id = lastHandler
    statusHandlers.append((id, handler))
    return Registration { [weak self] in self?.statusHandlers.removeAll { $0.id == id } }
  }

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
    case .switchedOff(let adapter): return .switchedOff(adapter.name)
    case .unfit(let adapter): return adapter.isComplete || patience == .over ? .unfit(adapter.name) : .asking
    case .usable(let adapter):
      let problems = problems
      return problems.isEmpty ? .ready(adapter.name) : .degraded(adapter.name, reasons: problems)
    }
  }

  /// The first of what does not work; where all does, what falls short.
  private var problems: [String] {
    let served = applications.sorted { $0.key < $1.key }.lazy.compactMap(\.value.registration.problem).first
    let advertised = advertisements.sorted { $0.key < $1.key }
    if let first = served ?? advertised.lazy.compactMap(\.value.problem).first ?? central.problem { return [first] }
    return [advertised.lazy.compactMap(\.value.shortfall).first, notifyingShortfall].compactMap { $0 }
  }

  /// Tells of a new status at the end of this turn of the loop: changes of one turn are one, and nobody is called from
  /// within a call of his own.
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
      situation.report(after: reported, to: log)
      reported = situation
    }
    let status = status
    guard status != toldStatus else { return }
    toldStatus = status
    for (id, handler) in statusHandlers where statusHandlers.contains(where: { $0.id == id }) { handler(status) }
  }

  private func daemonChanged() {
    let place = daemon.owner.flatMap { owner in
      choice.adapterInUse.map { Place(owner: owner, adapter: $0.path) }
    }
    bePatient()
    if place != self.place {
      self.place = place
      closeLinks()
      prepareRawHCI()
      for (_, application) in applications.sorted(by: { $0.key < $1.key }) { application.registration.aim(at: place) }
      aimAdvertisements()
      central.aim(at: place)
    }
    statusMayHaveChanged()
  }

  /// Where to advertise: whoever connects had better find the services there.
  private var stage: Place? {
    applications.values.allSatisfy(\.registration.isRegistered) ? place : nil
  }

  private func aimAdvertisements() {
    let stage = stage
    for (_, object) in advertisements.sorted(by: { $0.key < $1.key }) { object.aim(at: stage) }
  }

  /// Gives an adapter that is not complete some time before anything is said against it.
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

  // MARK: Advertising

  public func advertise(_ advertisement: Advertisement) throws(RadioError) -> Registration {
    let number = Self.freeNumber(advertisements.keys)
    let kept =
      if let socket = doors.management.way {
        try managed(advertisement, socket)
      } else {
        try onBus(advertisement, number)
      }
    advertisements[number] = kept
    kept.aim(at: stage)
    statusMayHaveChanged()
    return Registration { [weak self] in
      kept.close()
      guard let self, advertisements[number] === kept else { return }
      advertisements[number] = nil
      statusMayHaveChanged()
    }
  }

  private func managed(
    _ advertisement: Advertisement, _ socket: ManagementSocket
  ) throws(RadioError) -> any KeptAdvertisement {
    let taken = advertisements.values.compactMap { ($0 as? ManagedAdvertisement)?.number }
    return ManagedAdvertisement(
      try ManagedAdvertisement.Payload(advertisement), number: Self.freeNumber(taken), socket: socket,
      scheduler: scheduler,
      takenByOthers: { [weak self] in
        guard let self, let place else { return 0 }
        return daemon.adapters[place.adapter]?.activeInstances ?? 0
      },
      onChange: { [weak self] in self?.statusMayHaveChanged() })
  }

  private func onBus(_ advertisement: Advertisement, _ number: Int) throws(RadioError) -> any KeptAdvertisement {
    _ = try advertisement.data.encoded()
    _ = try AdvertisedObject.scanResponse(of: advertisement).encoded()
    let path = Self.root.child("adv\(number)")
    let registration = KeptRegistration(
      .advertisement, path, bus: bus, scheduler: scheduler, onChange: { [weak self] in self?.statusMayHaveChanged() })
    var reason: String?
    if case .shut(let why) = doors.management { reason = why }
    return AdvertisedObject(
      advertisement, at: path, on: bus.objects, registration: registration, version: version, management: reason,
      isOwner: { [weak self] in self?.isFromBluetoothd($0) ?? false })
  }

  /// A controller ends the advertisement by which a peer connects, and the kernel does not start it again while the
  /// link lasts. Facts: bluez.md section 5.
  func renewAdvertisements() {
    for (_, object) in advertisements.sorted(by: { $0.key < $1.key }) { object.renew() }
  }

  // MARK: Serving

  /// With raw HCI a value reaches the client that it is meant for, whether it subscribed or not. Without, it is heard by
  /// every client that subscribed to the characteristic, whichever link it is meant for, and dropped if there is none. A
  /// characteristic is read as the value that was notified last.
  public func serve(_ application: GATTApplication, delegate: any GATTServerDelegate) -> any GATTServer {
    let number = Self.freeNumber(applications.keys)
    let path = Self.root.child("gatt\(number)")
    let registration = KeptRegistration(
      .application, path, bus: bus, scheduler: scheduler,
      willRegister: { [weak self] in self?.applications[number]?.reset() },
      didRegister: { [weak self] in self?.aimAdvertisements() },
      onChange: { [weak self] in self?.statusMayHaveChanged() })
    let served = ServedApplication(
      application, at: path, on: bus, registration: registration, delegate: delegate, counters: counters,
      isOwner: { [weak self] in self?.isFromBluetoothd($0) ?? false },
      written: { [weak self] (write, id) throws(ATTError) in
        guard let self else { throw .unlikely }
        try receive(write, to: id, number)
      },
      onlyClient: { [weak self] in self?.onlyClient() })
    applications[number] = served
    registration.aim(at: place)
    statusMayHaveChanged()
    return BlueZServer(
      self, number,
      Registration { [weak self] in
        served.close()
        guard let self, applications[number] === served else { return }
        applications[number] = nil
        aimAdvertisements()
        statusMayHaveChanged()
      })
  }

  // MARK: Who may call

  /// What is said against a call of one of the radio's objects; nil if it comes from bluetoothd, or is none of them.
  public func refusal(of call: MethodCall) -> DBusError? {
    guard isOwn(call.path), !isFromBluetoothd(call) else { return nil }
    counters.strangers += 1
    return .denied("Only bluetoothd may call \(call.path.string).")
  }

  private func isFromBluetoothd(_ call: MethodCall) -> Bool {
    daemon.owner != nil && call.sender == daemon.owner
  }

  private func isOwn(_ path: ObjectPath) -> Bool {
    applications.values.contains { path.isWithin($0.path) }
      || advertisements.values.contains { $0.path.map(path.isWithin) ?? false }
  }

  private static func freeNumber(_ taken: some Collection<Int>) -> Int {
    (0...taken.count).first { !taken.contains($0) } ?? taken.count
  }
}
