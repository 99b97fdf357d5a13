import Air
import BlueZ
import CommandLine
import Common
import Config
import Crypto
import DBus
import Glibc
import Journal
import Loop
import Manager
import Radio
import Store
import Tuvali
import Verifier
import Wallet

/// The service put together: one bus, one radio, the services on them, and the signals of the outside.
@LoopActor
final class Daemon {
  nonisolated static let busName = "org.earshot"

  private var settings: EarshotSettings
  private let files: ConfigurationFiles
  private let bus: BusConnection
  private let name: String
  private let radio: any Radio
  private let verifier: VerifierService
  private let wallet: WalletService?
  private let faces: [AnyObject]
  private var registrations: [Registration] = []
  private var onEnd: (@LoopActor (ExitCode) -> Void)?
  private var isReady = false
  private var pendingRestart: [String] = []

  init(
    _ settings: EarshotSettings, files: ConfigurationFiles, bus: BusConnection, name: String, privileges: Privileges
  ) {
    // Before any key is in it.
    Self.guardMemory()
    self.settings = settings
    self.files = files
    self.bus = bus
    self.name = name
    bus.objects.access = ServiceAccess.rule()
    radio = Self.radio(settings.radio, bus, privileges)
    verifier = VerifierService(
      radio: radio, scheduler: EventLoop.shared, settings: VerifierService.Settings(settings),
      vault: Self.vault(settings))
    wallet =
      settings.wallet.enabled
      ? WalletService(
        radio: radio, scheduler: EventLoop.shared, settings: WalletService.Settings(settings.wallet))
      : nil
    let services = ["Verifier"] + (wallet == nil ? [] : ["Wallet"])
    var faces: [AnyObject] = [
      ManagerFace(radio, services: services, on: bus.objects),
      VerifierFace(verifier, on: bus.objects, manager: ManagerFace.path),
    ]
    if let wallet { faces.append(WalletFace(wallet, on: bus.objects, manager: ManagerFace.path)) }
    self.faces = faces
  }

  /// Without a place to keep credentials the kiosk serves all the same, and says so.
  private static func vault(_ settings: EarshotSettings) -> VaultKeeper {
    let directory = settings.store.directory
    var limits = RecordSpool.Limits()
    limits.maximumCount = settings.verifier.keptTransfers
    limits.maximumBytes = settings.store.bytes
    return VaultKeeper(
      .init(keepFor: settings.store.keepFor, maximumBytes: settings.store.bytes), scheduler: EventLoop.shared,
      disk: SerialWorker(),
      open: { [limits] () throws(StoreError) in
        let state = try StateDirectory(path: directory)
        return try RecordSpool(in: state, key: try SpoolKey.load(from: state), limits: limits)
      })
  }

  private static func radio(
    _ settings: EarshotSettings.Radio, _ bus: BusConnection, _ privileges: Privileges
  ) -> any Radio {
    switch settings.backend {
    case .bluez:
      BlueZRadio(bus: bus, adapter: settings.adapter, knownVersion: .installed(), doors: privileges.doors)
    case .air:
      if let socket = settings.airSocket {
        RemoteAir(path: socket)
      } else {
        AirSpace(scheduler: EventLoop.shared, seed: 0).addNode()
      }
    }
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
    verifier.observe(changed: { [weak self] in self?.showStatus() }, received: { _ in })
    if let watchdog = ServiceManager.startWatchdog(on: loop, isHealthy: { true }) { registrations.append(watchdog) }
    verifier.restore()
    if settings.verifier.enabled { _ = verifier.start() }
    bus.connect(name: name)
  }

  /// Keys live in this memory.
  private static func guardMemory() {
    if !ProcessMemory.hide() {
      Log.shared.warning("The kernel does not hide this process's memory", id: .memoryExposed)
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
    verifier.stop()
    wallet?.stop()
    registrations = []
    // What is being written or erased is brought to its end, as far as the disk lets it.
    verifier.vault.whenIdle(within: .seconds(2)) { [bus] in
      onEnd(code)
      // What was said to the radio and the bus in this turn is sent before the loop ends.
      EventLoop.shared.soon {
        bus.close()
        EventLoop.shared.stop()
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
      Log.shared.notice("Ready as \(name), version \(ManagerFace.version)", id: .started)
    case .nameUnavailable(let error):
      Log.shared.error("The name \(name) cannot be had: \(error.sentence)", .error(error))
      // At start another service is running; later the name was taken from us, and is asked for again.
      if !isReady { return stop(.failed) }
    case .connected, .lost, .connecting, .closed: break
    }
    showStatus()
  }

  /// One sentence for `systemctl status`.
  private func showStatus() {
    let work =
      switch verifier.state {
      case .stopped: "The verifier is stopped."
      case .waiting: "Waiting for wallets as \(settings.verifier.name)."
      case .serving: "Receiving a credential."
      }
    let restart = pendingRestart.isEmpty ? "" : " A restart is needed for \(pendingRestart.joined(separator: ", "))."
    let reason = radio.status.reason
    let trouble = verifier.vault.troubleInShort
    let storage = trouble.isEmpty ? "" : " \(trouble)"
    ServiceManager.status((reason.isEmpty ? "" : reason + " ") + work + storage + restart)
  }

  // MARK: The configuration

  private func reload() {
    ServiceManager.reloading(now: EventLoop.shared.now)
    let loaded = EarshotSettings.load(from: files)
    for complaint in loaded.complaints {
      Log.shared.warning("\(complaint.description)", id: .configurationProblem)
    }
    let changes = settings.changes(to: loaded.settings)
    pendingRestart = changes.filter(\.needsRestart).map(\.name)
    settings = loaded.settings.keepingRestartSettings(of: settings)
    Log.shared.level = LogLevel(settings.log.level)
    verifier.apply(VerifierService.Settings(settings))
    verifier.vault.settings.keepFor = settings.store.keepFor
    wallet?.apply(WalletService.Settings(settings.wallet))
    let names = changes.isEmpty ? "nothing changed" : changes.map(\.name).joined(separator: ", ")
    Log.shared.notice("The configuration was read again: \(names)", id: .configurationReloaded)
    ServiceManager.ready()
    showStatus()
  }
}
