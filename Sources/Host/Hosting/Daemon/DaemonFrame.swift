import CommandLine
import Config
import Crypto
import DBus
import Glibc
import Journal
import Loop

/// The part that all daemons share: signals, the watchdog, the bus name, the reload of the configuration, and
/// notifications to systemd.
@LoopActor
public final class DaemonFrame {
  /// Maximum time for an empty task on the computation worker. If it takes longer, the daemon stops notifying the
  /// watchdog, and systemd restarts it. An unresponsive disk causes no restart, which would lose the state in memory:
  /// the store reports it. Neither does an unresponsive file of a caller, which has a time limit.
  private nonisolated static let canaryLimit = Duration.seconds(10)
  /// Time after readiness at which code pages that only the start needed are released.
  private nonisolated static let startTime = Duration.seconds(1)

  /// The settings in force.
  public private(set) var configuration: Configuration
  private let bus: BusConnection
  private let name: String
  private let version: String
  private let load: @Sendable (Configuration) -> LoadedConfiguration
  private var body: (any DaemonBody)?
  private var registrations: [Registration] = []
  private var onEnd: (@LoopActor (ExitCode) -> Void)?
  private var isReady = false
  private var codeTimer: Registration?
  private var pendingRestart: [String] = []
  private let reader = SerialWorker("configuration")
  private var isReading = false
  private var isReloadDue = false

  /// - Parameters:
  ///   - configuration: the settings at the start.
  ///   - load: reads the files again, on another thread; its argument is the settings in force.
  ///   - bus: the connection that owns `name`.
  public init(
    _ configuration: Configuration, load: @escaping @Sendable (Configuration) -> LoadedConfiguration,
    bus: BusConnection, name: String, version: String
  ) {
    (self.configuration, self.load, self.bus, self.name, self.version) = (configuration, load, bus, name, version)
  }

  /// Runs the daemon until a signal or a failure ends it.
  ///
  /// - Parameter onEnd: called with the exit code before the loop stops.
  public func run(_ body: any DaemonBody, onEnd: @escaping @LoopActor (ExitCode) -> Void) {
    (self.body, self.onEnd) = (body, onEnd)
    let loop = EventLoop.shared
    registrations += [
      loop.on(signal: SIGTERM) { [weak self] in self?.stop(.ok) },
      loop.on(signal: SIGINT) { [weak self] in self?.stop(.ok) },
      loop.on(signal: SIGHUP) { [weak self] in self?.reload() },
      bus.onState { [weak self] in self?.busChanged($0) },
    ]
    let canary = Canary(through: loop, loop, limit: Self.canaryLimit)
    let watchdog = ServiceManager.startWatchdog(on: loop) {
      Log.reportLost()
      return canary.isBack()
    }
    if let watchdog { registrations.append(watchdog) }
    body.begin(in: self) { [weak self] in
      guard let self, self.onEnd != nil else { return }
      bus.connect(name: name)
    }
  }

  /// Protects the memory, which contains keys. Call it before the first key is in memory.
  public static func guardMemory() {
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

  /// Ends the daemon with this exit code. A second call has no effect.
  public func stop(_ code: ExitCode) {
    guard let onEnd, let body else { return }
    self.onEnd = nil
    Log.shared.info("Stopping", id: .stopping)
    ServiceManager.stopping()
    registrations = []
    body.stop { [bus] in
      onEnd(code)
      // Messages of this loop iteration to the bus are sent before the loop ends.
      EventLoop.shared.soon {
        bus.close()
        EventLoop.shared.stop()
      }
    }
  }

  /// Reports the status line to systemd, for `systemctl status`.
  public func showStatus() {
    guard let body else { return }
    let restart = pendingRestart.isEmpty ? "" : "A restart is needed for \(pendingRestart.joined(separator: ", "))."
    ServiceManager.status([body.statusLine, restart].filter { !$0.isEmpty }.joined(separator: " "))
  }

  /// Handles a changed connection to the bus. The journal already contains loss and return of the bus.
  private func busChanged(_ state: BusState) {
    switch state {
    case .connected where !isReady:
      isReady = true
      ServiceManager.ready()
      codeTimer = EventLoop.shared.schedule(after: Self.startTime) { ProcessMemory.giveBackCode() }
      Log.shared.notice("Ready as \(name), version \(version)", id: .started)
    case .nameUnavailable(let error):
      Log.shared.error("The bus name \(name) is not available. \(error.sentence)", .error(error))
      // If the name is taken at the start, another instance is running. If it is taken later, the bus connection
      // requests it again.
      if !isReady { return stop(.failed) }
    case .connected, .lost, .connecting, .closed: break
    }
    showStatus()
  }

  // MARK: The configuration

  /// Reads the files away from the loop. A request during the read causes another read.
  private func reload() {
    ServiceManager.reloading(now: EventLoop.shared.now)
    isReloadDue = isReading
    guard !isReading else { return }
    isReading = true
    reader.offload(
      { [load, configuration] in load(configuration) },
      then: { [weak self] loaded in
        // A daemon that stops applies nothing, and does not report that it is ready.
        guard let self, onEnd != nil else { return }
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
    body?.apply(configuration)
    Log.shared.notice("The configuration was reloaded. \(SettingChange.report(changes))", id: .configurationReloaded)
    ServiceManager.ready()
    showStatus()
  }
}

/// The part of a daemon that is not shared with others. `DaemonFrame` calls everything on the loop: `begin` once, then
/// `apply` at each reload, and `stop` once.
@LoopActor
public protocol DaemonBody: AnyObject, Sendable {
  /// The daemon's activity and problems in short sentences, for `systemctl status`; empty if there are none.
  var statusLine: String { get }

  /// Starts the daemon. `frame` is notified of each change of `statusLine`.
  ///
  /// - Parameter then: called once, when the bus name may appear.
  func begin(in frame: DaemonFrame, then: @escaping @LoopActor () -> Void)

  /// Applies settings that a reload changed. Settings that need a restart have their old values.
  func apply(_ configuration: Configuration)

  /// Stops the daemon, and completes pending operations.
  ///
  /// - Parameter then: called once, after a limited time.
  func stop(then: @escaping @LoopActor () -> Void)
}
