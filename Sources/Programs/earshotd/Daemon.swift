import Air
import BlueZ
import Config
import DBus
import HCI
import Hosting
import Listing
import Loop
import Radio
import Sharing

/// The complete service: one radio, and the services on it.
@LoopActor
final class Daemon: DaemonBody {
  /// Time limit for the services to complete their disk operations.
  private nonisolated static let restLimit = Duration.seconds(2)
  /// Maximum delay before the daemon requests its bus name, in which the services restore their stored state.
  private nonisolated static let restoreLimit = Duration.seconds(5)

  private let configuration: Configuration
  /// The bus connection by which other programs call the service.
  private let bus: BusConnection
  /// The connection for bluetoothd, separate from that for other programs: their calls must not delay a phone's writes.
  private let radioBus: BusConnection
  private let radio: SharedRadio
  private let driver: any RadioDriver
  private lazy var services = ServiceGroup(kinds, scheduler: EventLoop.shared) { self.context(of: $0) }
  private let kinds: [any Service.Type]
  private var manager: ManagerAdaptor?
  private var metrics: MetricsFile?
  private var statusWatch: Registration?
  private weak var frame: DaemonFrame?

  /// - Parameters:
  ///   - list: all services.
  ///   - configuration: the settings at the start.
  ///   - bus: the connection for other programs.
  ///   - address: the address of the bus.
  init(
    _ list: ServiceList, _ configuration: Configuration, bus: BusConnection, address: BusAddress,
    privileges: Privileges
  ) {
    kinds = list.kinds
    self.configuration = configuration
    radioBus = BusConnection(address: address, limits: BusSettings.radio, purpose: " for the radio")
    self.bus = bus
    let checked: Set<String> = Set(list.kinds.flatMap { $0.checkedInterfaces })
    bus.objects.access = ServiceAccess.rule(checked: checked, charged: checked)
    radioBus.objects.access = ServiceAccess.rule()
    driver = Self.driver(
      configuration[RadioSettings.self], radioBus, privileges,
      isDegradable: list.kinds.contains { $0.takesDegradedRadio(in: configuration) })
    radio = SharedRadio(
      driver: driver, scheduler: EventLoop.shared, limits: configuration[RadioSettings.self].linkLimits)
    let collector = MetricsCollector(
      bus.objects, meanings: list.counterMeanings, version: ManagerAdaptor.version)
    let text: @LoopActor () -> String = { MetricsText.text(collector.metrics()) }
    manager = ManagerAdaptor(
      radio.tenant("manager", share: .nothing), services: services.names, on: bus.objects, metrics: text)
    services.export(on: bus.objects, manager: ManagerAdaptor.path)
    metrics = Self.metrics(configuration[MetricsSettings.self], text)
  }

  /// The file of the metrics; nil without a path.
  private static func metrics(_ settings: MetricsSettings, _ text: @escaping @LoopActor () -> String) -> MetricsFile? {
    settings.path().map {
      MetricsFile(
        path: $0, interval: settings.interval, scheduler: EventLoop.shared, disk: SerialWorker("metrics"), text: text)
    }
  }

  private static func driver(
    _ settings: RadioSettings, _ bus: BusConnection, _ privileges: Privileges, isDegradable: Bool
  ) -> any RadioDriver {
    switch settings.backend {
    case .bluez:
      BlueZRadio(
        bus: bus, adapter: settings.adapter, knownVersion: .installed(), configuration: { .installed() },
        doors: privileges.doors,
        links: links(settings), isDegradable: isDegradable, startsDaemon: settings.startsBluetooth,
        safety: safety(settings))
    case .air:
      if let socket = settings.airSocket {
        RemoteAir(path: socket, address: settings.adapter.flatMap { BluetoothAddress($0) })
      } else {
        AirSpace(scheduler: EventLoop.shared, seed: 0).addNode()
      }
    }
  }

  private static func safety(_ settings: RadioSettings) -> ClassicSafety {
    switch settings.openStreams {
    case .auto: .known(.running)
    case .yes: .safe
    case .no: .off
    }
  }

  private static func links(_ settings: RadioSettings) -> LinkPreferences {
    LinkPreferences(intervals: settings.linkInterval, selects2M: settings.selects2M)
  }

  /// Creates the context of a service.
  private func context(of kind: any Service.Type) -> ServiceContext {
    ServiceContext(
      configuration: configuration, radio: radio(of: kind), scheduler: EventLoop.shared,
      makeWorker: { SerialWorker("disk") }, statusChanged: { [weak self] in self?.frame?.showStatus() }, bus: bus)
  }

  /// A service's view of the radio.
  private func radio(of kind: any Service.Type) -> any Radio {
    radio.tenant(kind.name, share: kind.linkShare(in: configuration))
  }

  // MARK: Running

  var statusLine: String {
    // A service may report its status during its creation.
    guard manager != nil else { return "" }
    return [radio.status.reason, services.statusLine].filter { !$0.isEmpty }.joined(separator: " ")
  }

  func begin(in frame: DaemonFrame, then: @escaping @LoopActor () -> Void) {
    self.frame = frame
    statusWatch = radio.onStatus { [weak frame] _ in frame?.showStatus() }
    // When the name appears on the bus, stored state is restored; an unresponsive disk delays the name only up to this
    // limit.
    services.begin(within: Self.restoreLimit, then: then)
    metrics?.begin()
    if configuration[RadioSettings.self].backend == .bluez { radioBus.connect() }
  }

  func apply(_ configuration: Configuration) {
    radio.apply(configuration[RadioSettings.self].linkLimits)
    (driver as? BlueZRadio)?.prefer(Self.links(configuration[RadioSettings.self]))
    services.apply(configuration)
    metrics?.interval = configuration[MetricsSettings.self].interval
  }

  func stop(then: @escaping @LoopActor () -> Void) {
    statusWatch = nil
    metrics = nil
    services.stop(within: Self.restLimit) { [radio, radioBus] in
      radio.rest(within: Self.restLimit) {
        // Messages of this loop iteration to the radio are sent before the loop ends.
        EventLoop.shared.soon { radioBus.close() }
        then()
      }
    }
  }
}
