import Config
import Crypto
import DBus
import Glibc
import Hosting
import Journal
import LocalSockets
import Loop

/// The program `earshot-nostrd`: the uplink of the mesh in a process of its own, because it opens network sockets.
@LoopActor
public final class UplinkDaemon: DaemonBody {
  /// Time limit for stored state to be read before the bus name appears, and for pending operations at the end.
  private nonisolated static let (restoreLimit, restLimit) = (Duration.seconds(5), Duration.seconds(3))
  /// The environment variable by which developers of the apps connect to relays without a proxy, and to relays without
  /// TLS.
  nonisolated static let clearnetVariable = "BITCHAT_DEV_ALLOW_CLEARNET"

  /// The program `earshot-nostrd`, with its options and settings.
  public nonisolated static var program: DaemonProgram {
    DaemonProgram(
      "earshot-nostrd", "Private messages of the mesh over Nostr relays, through a SOCKS proxy.",
      tool: "earshot mesh uplink", busName: UplinkAdaptor.busName, version: ManagerAdaptor.version,
      defaults: configuration,
      files: files, messages: MessageID.daemon + MessageID.uplink,
      check: { MemoryBudget.check($0) },
      problems: { $0[UplinkSettings.self].problems(allowsClearnet: allowsClearnet) },
      interfaces: { described.map(\.interface) },
      prepare: { _ in { configuration, bus, _ in UplinkDaemon(configuration, bus) } })
  }

  /// The default settings.
  public nonisolated static var configuration: Configuration {
    Configuration(
      of: "earshot-nostrd, private messages over Nostr", file: "uplink.conf", program: "earshot-nostrd",
      [UplinkSettings.self, StoreSettings.self, BusSettings.self, LogSettings.self])
  }

  /// `uplink.conf` in the directories of Earshot's configuration.
  nonisolated static var files: ConfigurationFiles {
    ConfigurationFiles(name: "uplink.conf", directories: ["/etc/earshot", "/run/earshot-nostr", "/usr/lib/earshot"])
  }

  nonisolated static var allowsClearnet: Bool { getenv(clearnetVariable).map { String(cString: $0) == "1" } ?? false }

  /// The objects on the bus, for documentation.
  public static var described: [DescribedObject] {
    let loop = EventLoop.shared
    let service = UplinkService(
      settings: UplinkSettings(), route: .proxy(UplinkSettings().proxy), store: UplinkStore(directory: "", disk: loop),
      mesh: NoMesh(), scheduler: loop, clock: SystemWallClock(), resolver: HostResolver(worker: loop))
    return [
      DescribedObject(UplinkAdaptor.path.string, UplinkAdaptor.interface(service)),
      DescribedObject(BusMesh.sinkPath.string, BusMesh.sink(nil)),
    ]
  }

  private let service: UplinkService
  private let adaptor: UplinkAdaptor
  private weak var frame: DaemonFrame?
  private var limit: Registration?

  private init(_ configuration: Configuration, _ bus: BusConnection) {
    // The interface for `earshotd` checks its caller itself, because the user of `earshotd` is only one member of the
    // group.
    bus.objects.access = ServiceAccess.rule(checked: [BusMesh.sinkInterface])
    let settings = configuration[UplinkSettings.self]
    let loop = EventLoop.shared
    service = UplinkService(
      settings: settings, route: Self.allowsClearnet ? .clearnet : .proxy(settings.proxy),
      store: UplinkStore(directory: configuration[StoreSettings.self].directory, disk: SerialWorker("disk")),
      mesh: BusMesh(settings.mesh, on: bus, scheduler: loop), scheduler: loop, clock: SystemWallClock(),
      resolver: HostResolver())
    adaptor = UplinkAdaptor(service, on: bus)
    service.changes.addForGood { [weak self] in self?.frame?.showStatus() }
  }

  public var statusLine: String { service.statusLine }

  public func begin(in frame: DaemonFrame, then: @escaping @LoopActor () -> Void) {
    self.frame = frame
    once(then, within: Self.restoreLimit) { service.begin(then: $0) }
  }

  public func apply(_ configuration: Configuration) { service.apply(configuration[UplinkSettings.self]) }

  public func stop(then: @escaping @LoopActor () -> Void) {
    once(then, within: Self.restLimit) { service.stop(then: $0) }
  }

  /// Runs an operation, and calls `then` once: when it ends, or after `time`.
  private func once(
    _ then: @escaping @LoopActor () -> Void, within time: Duration,
    _ operation: (@escaping @LoopActor () -> Void) -> Void
  ) {
    var pending: (@LoopActor () -> Void)? = then
    let end: @LoopActor () -> Void = { [weak self] in
      let report = pending
      pending = nil
      if report != nil { self?.limit = nil }
      report?()
    }
    limit = EventLoop.shared.schedule(after: time, end)
    operation(end)
  }
}

/// Stands in for the node of the mesh where interfaces are only described.
@LoopActor
private final class NoMesh: MeshPort {
  var onRequest: (@LoopActor (MeshRequest) -> Void)?
  let isAttached = false
  let reason = ""

  func start(key: String) {}
  func deliver(_ text: String, from key: String, then: @escaping @LoopActor (Bool) -> Void) {
    EventLoop.shared.soon { then(false) }
  }
  func stop() {}
}
