import Air
import BlueZ
import CommandLine
import Config
import Crypto
import DBus
import Glibc
import Hosting
import Journal
import Listing
import Loop
import Radio
import Sharing

/// The complete service: one bus, one radio, the services on them, and signals.
@LoopActor
final class Daemon {
  nonisolated static let busName = "org.earshot"
  /// Time limit for the services to complete their disk operations.
  private nonisolated static let restLimit = Duration.seconds(2)
  /// Maximum delay of the bus name while stored state is restored.
  private nonisolated static let restoreLimit = Duration.seconds(5)
  /// Maximum duration of a computation away from the loop. Beyond it the watchdog is no longer notified. A disk or a
  /// caller's file that does not respond causes no restart, which would lose the state in memory: the store reports the
  /// disk, and files have a time limit.
  private nonisolated static let canaryLimit = Duration.seconds(10)
  /// Time after readiness at which one-time work of the start is complete.
  private nonisolated static let startTime = Duration.seconds(1)

  private let list: ServiceList
  private var configuration: Configuration
  private let files: ConfigurationFiles
  private let bus: BusConnection
  /// The connection for bluetoothd, separate from that for other programs: their calls must not delay a phone's writes.
  private let radioBus: BusConnection
  private let name: String
  private let radio: SharedRadio
  private let driver: any RadioDriver
  private lazy var services = ServiceGroup(list.kinds, scheduler: EventLoop.shared) { self.context(of: $0) }
  private var manager: ManagerFace?
  private var registrations: [Registration] = []
  private var onEnd: (@LoopActor (ExitCode) -> Void)?
  private var isReady = false
  private var codeTimer: Registration?
  private var pendingRestart: [String] = []
  private let reader = SerialWorker("configuration")
  private var isReading = false
  private var isReloadDue = false

  /// - Parameters:
  ///   - list: all services.
  ///   - configuration: the configuration from `files`.
  ///   - address: the address of the bus.
  ///   - name: the bus name to own.
  init(
    _ list: ServiceList, _ configuration: Configuration, files: ConfigurationFiles, address: BusAddress, name: String,
    privileges: Privileges
  ) {
    // This precedes the first key in memory.
    Self.guardMemory()
    self.list = list
    self.configuration = configuration
    self.files = files
    self.name = name
    bus = BusConnection(address: address, limits: configuration[BusSettings.self].limits)
    radioBus = BusConnection(address: address, limits: BusSettings.radio, purpose: " for the radio")
    for bus in [bus, radioBus] { bus.objects.access = ServiceAccess.rule() }
    driver = Self.driver(
      configuration[RadioSettings.self], radioBus, privileges,
      isDegradable: list.kinds.contains { $0.takesDegradedRadio(in: configuration) })
    radio = SharedRadio(
      driver: driver, scheduler: EventLoop.shared, limits: configuration[RadioSettings.self].linkLimits)
    manager = ManagerFace(radio.tenant("manager", share: .nothing), services: services.names, on: bus.objects)
    services.export(on: bus.objects, manager: ManagerFace.path)
  }

  private static func driver(
    _ settings: RadioSettings, _ bus: BusConnection, _ privileges: Privileges, isDegradable: Bool
  ) -> any RadioDriver {
    switch settings.backend {
    case .bluez:
      BlueZRadio(
        bus: bus, adapter: settings.adapter, knownVersion: .installed(), configuration: { .installed() },
        doors: privileges.doors,
        links: links(settings), isDegradable: isDegradable, startsDaemon: settings.startsBluetooth)
    case .air:
      if let socket = settings.airSocket {
        RemoteAir(path: socket, address: settings.adapter.flatMap { BluetoothAddress($0) })
      } else {
        AirSpace(scheduler: EventLoop.shared, seed: 0).addNode()
      }
    }
  }

  private static func links(_ settings: RadioSettings) -> LinkPreferences {
    LinkPreferences(intervals: settings.linkInterval, selects2M: settings.selects2M)
  }

  /// Creates the context of a service.
  private func context(of kind: any Service.Type) -> ServiceContext {
    ServiceContext(
      configuration: configuration, radio: radio(of: kind), scheduler: EventLoop.shared,
      makeWorker: { SerialWorker("disk") }, statusChanged: { [weak self] in self?.showStatus() })
  }

  /// A service's view of the radio.
  private func radio(of kind: any Service.Type) -> any Radio {
    radio.tenant(kind.name, share: kind.linkShare(in: configuration))
  }

  // MARK: Running

  /// - Parameter onEnd: called with the exit code before the loop stops.
  func run(onEnd: @escaping @LoopActor (ExitCode) -> Void) {
    self.onEnd = onEnd
    let loop = EventLoop.shared
    registrations += [
      loop.on(signal: SIGTERM) { [weak self] in self?.stop(.ok) },
      loop.on(signal: SIGINT) { [weak self] in self?.stop(.ok) },
      loop.on(signal: SIGHUP) { [weak self] in self?.reload() },
      bus.onState { [weak self] in self?.busChanged($0) },
      radio.onStatus { [weak self] _ in self?.showStatus() },
    ]
    let canary = Canary(through: loop, loop, limit: Self.canaryLimit)
    let watchdog = ServiceManager.startWatchdog(on: loop) {
      Log.reportLost()
      return canary.isBack()
    }
    if let watchdog { registrations.append(watchdog) }
    // When the name appears on the bus, stored state is restored; an unresponsive disk delays the name only up to this
    // limit.
    services.begin(within: Self.restoreLimit) { [weak self] in
      guard let self, self.onEnd != nil else { return }
      bus.connect(name: name)
    }
    if configuration[RadioSettings.self].backend == .bluez { radioBus.connect() }
  }

  /// Protects the memory, which contains keys.
  private static func guardMemory() {
    ProcessMemory.giveBackFreed()
    if !ProcessMemory.hide() {
      Log.shared.warning("The kernel does not hide the memory of this process from other processes", id: .memoryExposed)
    }
    if !ProcessMemory.wipesWhatIsFreed {
      Log.shared.warning(
        "Another memory allocator is in use, so freed memory is not overwritten", id: .memoryExposed)
    }
    if !LockedMemory.isAvailable() {
      Log.shared.warning(
        "Memory cannot be locked, so keys may reach the disk. Set LimitMEMLOCK=16M in the unit", id: .memoryExposed)
    }
  }

  private func stop(_ code: ExitCode) {
    guard let onEnd else { return }
    self.onEnd = nil
    Log.shared.info("Stopping", id: .stopping)
    ServiceManager.stopping()
    registrations = []
    services.stop(within: Self.restLimit) { [bus, radio, radioBus] in
      radio.rest(within: Self.restLimit) {
        onEnd(code)
        // Messages of this loop iteration to the radio and the bus are sent before the loop ends.
        EventLoop.shared.soon {
          bus.close()
          radioBus.close()
          EventLoop.shared.stop()
        }
      }
    }
  }

  // MARK: External events

  /// The journal already contains loss and return of the bus.
  private func busChanged(_ state: BusState) {
    switch state {
    case .connected where !isReady:
      isReady = true
      ServiceManager.ready()
      codeTimer = EventLoop.shared.schedule(after: Self.startTime) { ProcessMemory.giveBackCode() }
      Log.shared.notice("Ready as \(name), version \(ManagerFace.version)", id: .started)
    case .nameUnavailable(let error):
      Log.shared.error("The bus name \(name) is not available. \(error.sentence)", .error(error))
      // At the start another service is running; later another program took the name, and it is requested again.
      if !isReady { return stop(.failed) }
    case .connected, .lost, .connecting, .closed: break
    }
    showStatus()
  }

  /// Reports one sentence for `systemctl status`.
  private func showStatus() {
    // A service may call this during its creation.
    guard manager != nil else { return }
    let restart = pendingRestart.isEmpty ? "" : "A restart is needed for \(pendingRestart.joined(separator: ", "))."
    let sentences = [radio.status.reason, services.statusLine, restart]
    ServiceManager.status(sentences.filter { !$0.isEmpty }.joined(separator: " "))
  }

  // MARK: The configuration

  /// Reads the files away from the loop. A request during the read causes another read.
  private func reload() {
    ServiceManager.reloading(now: EventLoop.shared.now)
    isReloadDue = isReading
    guard !isReading else { return }
    isReading = true
    reader.offload(
      { [list, files, configuration] in
        MemoryBudget.check(list.configuration.load(from: files, inForce: configuration))
      },
      then: { [weak self] loaded in
        guard let self else { return }
        isReading = false
        reloaded(loaded)
        if isReloadDue { reload() }
      })
  }

  private func reloaded(_ loaded: LoadedConfiguration) {
    for complaint in loaded.complaints {
      Log.shared.warning("\(complaint.description)", id: .configurationProblem)
    }
    let changes = configuration.changes(to: loaded.configuration)
    pendingRestart = changes.filter(\.needsRestart).map(\.name)
    configuration = loaded.configuration.keepingRestartSettings(of: configuration)
    Log.shared.level = configuration[LogSettings.self].level
    radio.apply(configuration[RadioSettings.self].linkLimits)
    (driver as? BlueZRadio)?.prefer(Self.links(configuration[RadioSettings.self]))
    services.apply(configuration)
    Log.shared.notice("The configuration was reloaded. \(SettingChange.report(changes))", id: .configurationReloaded)
    ServiceManager.ready()
    showStatus()
  }
}
