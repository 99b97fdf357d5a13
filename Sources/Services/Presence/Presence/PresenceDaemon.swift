import Config
import DBus
import Hosting
import Journal
import Loop

/// The program `earshot-presenced`: private presence in a separate process, because it opens network sockets.
@LoopActor
public final class PresenceDaemon: DaemonBody {
  /// Maximum time for reading stored state before the bus name appears.
  private nonisolated static let restoreLimit = Duration.seconds(5)
  /// Time limit for pending operations at the end.
  private nonisolated static let restLimit = Duration.seconds(2)

  /// The program with its options and settings.
  public nonisolated static var program: DaemonProgram {
    DaemonProgram(
      "earshot-presenced", "Private presence (Thali) on D-Bus.", tool: "earshot presence",
      busName: PresenceAdaptor.busName, version: ManagerAdaptor.version, defaults: configuration, files: files,
      messages: MessageID.daemon + MessageID.presence,
      check: { MemoryBudget.check($0) },
      problems: { $0[PresenceSettings.self].problems },
      interfaces: { described.map(\.interface) },
      prepare: { _ in { configuration, bus, _ in PresenceDaemon(configuration, bus) } })
  }

  /// The default settings.
  public nonisolated static var configuration: Configuration {
    Configuration(
      of: "earshot-presenced, private presence", file: "presence.conf", program: "earshot-presenced",
      [PresenceSettings.self, StoreSettings.self, BusSettings.self, LogSettings.self])
  }

  /// `presence.conf` in the directories of Earshot's configuration.
  nonisolated static var files: ConfigurationFiles {
    ConfigurationFiles(
      name: "presence.conf", directories: ["/etc/earshot", "/run/earshot-presence", "/usr/lib/earshot"])
  }

  /// The objects on the bus, for documentation.
  public static var described: [DescribedObject] {
    let loop = EventLoop.shared
    let settings = PresenceSettings()
    let service = PresenceService(
      settings: settings, network: LocalNetwork(settings, on: loop),
      book: KnownPeerStore(directory: "", disk: loop), scheduler: loop, clock: SystemWallClock())
    return [
      DescribedObject(PresenceAdaptor.path.string, PresenceAdaptor.interface(service)),
      DescribedObject(PresenceAdaptor.peers.string + "/N", PresenceAdaptor.peerInterface(service, nil)),
      DescribedObject(BusBluetooth.sinkPath.string, BusBluetooth.sink(nil)),
    ]
  }

  /// The name of the user as which `earshotd` runs.
  private nonisolated static let radioUser = "earshot"

  private let service: PresenceService
  private let face: PresenceAdaptor
  private weak var frame: DaemonFrame?

  private init(_ configuration: Configuration, _ bus: BusConnection) {
    // The user of `earshotd` is a member of the group earshot, but may not call this service: `earshotd` must not learn
    // which peers are nearby.
    bus.objects.access = ServiceAccess.rule(checked: [BusBluetooth.sinkInterface], outsider: Self.radioUser)
    let settings = configuration[PresenceSettings.self]
    let loop = EventLoop.shared
    service = PresenceService(
      settings: settings, network: LocalNetwork(settings, on: loop),
      bluetooth: settings.usesBluetooth ? BusBluetooth(settings.radio, on: bus, scheduler: loop) : NoBluetooth(),
      book: KnownPeerStore(directory: configuration[StoreSettings.self].directory, disk: SerialWorker("disk")),
      scheduler: loop, clock: SystemWallClock())
    face = PresenceAdaptor(service, on: bus)
    service.changes.addForGood { [weak self] in self?.frame?.showStatus() }
    service.moved.addForGood { [weak self] _ in self?.frame?.showStatus() }
  }

  public var statusLine: String { service.statusLine }

  public func begin(in frame: DaemonFrame, then: @escaping @LoopActor () -> Void) {
    self.frame = frame
    Once.call(then, within: Self.restoreLimit) { service.begin(then: $0) }
  }

  public func apply(_ configuration: Configuration) { service.apply(configuration[PresenceSettings.self]) }

  public func stop(then: @escaping @LoopActor () -> Void) {
    Once.call(then, within: Self.restLimit) { service.stop(then: $0) }
  }
}

/// Calls the callback of an operation exactly once: when the operation ends, or at a time limit.
@LoopActor
private final class Once {
  private var then: (@LoopActor () -> Void)?
  private var timer: Registration?

  private init(_ then: @escaping @LoopActor () -> Void) { self.then = then }

  /// Runs an operation, and calls `then` once: when it ends, or after `limit`.
  static func call(
    _ then: @escaping @LoopActor () -> Void, within limit: Duration,
    _ operation: @LoopActor (@escaping @LoopActor () -> Void) -> Void
  ) {
    let once = Once(then)
    once.timer = EventLoop.shared.schedule(after: limit) { once.end() }
    operation { once.end() }
  }

  private func end() {
    let report = then
    (then, timer) = (nil, nil)
    report?()
  }
}
