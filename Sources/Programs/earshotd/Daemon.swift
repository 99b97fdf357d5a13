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

/// The house put together: one bus, one radio, the services on them, and the signals from outside.
@LoopActor
final class Daemon {
  nonisolated static let busName = "org.earshot"
  /// Services may take so long to bring their disk's work to an end.
  private nonisolated static let restLimit = Duration.seconds(2)
  /// So long the name waits for what an earlier run kept.
  private nonisolated static let restoreLimit = Duration.seconds(5)
  /// What is computed away from the loop takes no longer. Where it does, the watchdog hears nothing more. (A disk or a caller's
  /// file that hangs is no reason for a restart: what is in memory would be lost with it. The store says that it hangs, and
  /// files have their time.)
  private nonisolated static let canaryLimit = Duration.seconds(10)
  /// So long after it is ready the service has done what it does once.
  private nonisolated static let startTime = Duration.seconds(1)

  private let list: ServiceList
  private var configuration: Configuration
  private let files: ConfigurationFiles
  private let bus: BusConnection
  /// bluetoothd's calls come by a connection of their own: what other programs ask for does not stand before a phone's write.
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
  ///   - list: the services there are.
  ///   - configuration: as it was loaded from `files`.
  ///   - address: of the bus.
  ///   - name: the name to own on the bus.
  init(
    _ list: ServiceList, _ configuration: Configuration, files: ConfigurationFiles, address: BusAddress, name: String,
    privileges: Privileges
  ) {
    // Before any key is in it.
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

  /// What a service is offered.
  private func context(of kind: any Service.Type) -> ServiceContext {
    ServiceContext(
      configuration: configuration, radio: radio(of: kind), scheduler: EventLoop.shared,
      makeWorker: { SerialWorker("disk") }, statusChanged: { [weak self] in self?.showStatus() })
  }

  /// The radio as a service sees it.
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
    // A program that finds the name finds what an earlier run kept, too; a disk that hangs holds the name up no longer than this.
    services.begin(within: Self.restoreLimit) { [weak self] in
      guard let self, self.onEnd != nil else { return }
      bus.connect(name: name)
    }
    if configuration[RadioSettings.self].backend == .bluez { radioBus.connect() }
  }

  /// Keys live in this memory.
  private static func guardMemory() {
    ProcessMemory.giveBackFreed()
    if !ProcessMemory.hide() {
      Log.shared.warning("The kernel does not hide this process's memory", id: .memoryExposed)
    }
    if !ProcessMemory.wipesWhatIsFreed {
      Log.shared.warning(
        "Another allocator is in place, and memory is not overwritten when it is freed", id: .memoryExposed)
    }
    if !LockedMemory.isAvailable() {
      Log.shared.warning(
        "Memory cannot be locked, so keys may reach the disk. LimitMEMLOCK=16M mends it", id: .memoryExposed)
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
        // What was said to the radio and the bus in this turn is sent before the loop ends.
        EventLoop.shared.soon {
          bus.close()
          radioBus.close()
          EventLoop.shared.stop()
        }
      }
    }
  }

  // MARK: What changes outside

  /// Loss and return of the bus are in the journal already.
  private func busChanged(_ state: BusState) {
    switch state {
    case .connected where !isReady:
      isReady = true
      ServiceManager.ready()
      codeTimer = EventLoop.shared.schedule(after: Self.startTime) { ProcessMemory.giveBackCode() }
      Log.shared.notice("Ready as \(name), version \(ManagerFace.version)", id: .started)
    case .nameUnavailable(let error):
      Log.shared.error("The bus name \(name) is not available. \(error.sentence)", .error(error))
      // At start another service is running; later the name was taken from us, and is asked for again.
      if !isReady { return stop(.failed) }
    case .connected, .lost, .connecting, .closed: break
    }
    showStatus()
  }

  /// One sentence for `systemctl status`.
  private func showStatus() {
    // A service may call for it while the services are being made.
    guard manager != nil else { return }
    let restart = pendingRestart.isEmpty ? "" : "A restart is needed for \(pendingRestart.joined(separator: ", "))."
    let sentences = [radio.status.reason, services.statusLine, restart]
    ServiceManager.status(sentences.filter { !$0.isEmpty }.joined(separator: " "))
  }

  // MARK: The configuration

  /// The files are read away from the loop. What is asked for meanwhile is read afterwards.
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
    Log.shared.notice("The configuration was read again. \(SettingChange.report(changes))", id: .configurationReloaded)
    ServiceManager.ready()
    showStatus()
  }
}
