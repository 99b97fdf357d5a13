import Config
import DBus
import Journal
import Loop
import Radio

/// One service of the daemon: its name, settings, journal messages and bus objects, and the calls from its start to its
/// end. A conforming type needs only an entry in the list of services.
///
/// The host creates a service, exports its objects, calls `begin`, and `apply` at each reload. At the end it calls
/// `stop`, then `rest`. All calls are on the loop. (The model is swift-service-lifecycle: services begin in the order
/// of the list, stop in reverse order, and have limited time for it.)
@LoopActor
public protocol Service: AnyObject, Sendable {
  /// The service's name, one capitalised word: `Manager1.Services` lists it.
  nonisolated static var name: String { get }
  /// The service's own sections of the configuration file, with their defaults.
  nonisolated static var sections: [any SettingsSection.Type] { get }
  /// The minimum and maximum links of the service, with default settings.
  nonisolated static var linkShare: LinkShare { get }
  /// The minimum and maximum links of the service with these settings; by default `linkShare`.
  nonisolated static func linkShare(in configuration: Configuration) -> LinkShare
  /// Whether, with these settings, the service accepts a radio that alters non-connectable advertisements, rather than
  /// none; by default false.
  nonisolated static func takesDegradedRadio(in configuration: Configuration) -> Bool
  /// Problems of these settings on this machine, and contradictions between settings: one sentence for each; by default
  /// none. `earshotd --check-config` reports them. The function reads the file system and must not block.
  nonisolated static func problems(with configuration: Configuration) -> [String]
  /// The service's journal messages, each with its text for the catalog. Services of one protocol may share some.
  nonisolated static var messages: [MessageID] { get }

  /// The interfaces whose methods check their callers themselves, and which the access rule of the service does not
  /// protect; by default none.
  nonisolated static var checkedInterfaces: [String] { get }

  /// Describes the service's bus objects, for interface files and documentation. Services of one protocol may share
  /// interfaces.
  ///
  /// - Parameters:
  ///   - radio: any radio; it is not used.
  ///   - scheduler: any scheduler; it is not used.
  static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject]

  /// Creates the service from its settings; nil if they disable it.
  static func make(_ context: ServiceContext) -> Self?

  /// Exports the service's objects.
  ///
  /// - Parameter manager: the path of the object manager that lists them.
  /// - Returns: objects whose release ends the exports.
  func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject]

  /// Starts the service: it restores its stored state and begins the configured activities. Its bus objects are already
  /// exported.
  func begin()

  /// Calls `then` once, when the stored state is restored, or after `limit` if the disk does not respond. State is then
  /// restored later. `begin` was called before.
  func whenRestored(within limit: Duration, then: @escaping @LoopActor () -> Void)

  /// Applies settings that a reload changed. Settings that need a restart have their old values.
  func apply(_ configuration: Configuration)

  /// The service's activity and problems, in short sentences for `systemctl status`; empty if there are none.
  /// `ServiceContext.statusChanged` reports a change.
  var statusLine: String { get }

  /// Stops the service: it no longer uses the radio, and pending operations fail.
  func stop()

  /// Completes pending writes and deletions on the disk. The service has been stopped.
  ///
  /// - Parameter then: called once, when that is done, at the latest after `limit`.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void)
}

extension Service {
  /// By default there is nothing to restore.
  public func whenRestored(within limit: Duration, then: @escaping @LoopActor () -> Void) { then() }

  public nonisolated static func linkShare(in configuration: Configuration) -> LinkShare { linkShare }

  public nonisolated static func takesDegradedRadio(in configuration: Configuration) -> Bool { false }

  public nonisolated static func problems(with configuration: Configuration) -> [String] { [] }

  public nonisolated static var checkedInterfaces: [String] { [] }

  /// By default there is nothing to complete on the disk.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) { then() }
}

/// The host's objects for a service. (`Service.export` exports its bus objects; all code logs to `Log.shared`.)
@LoopActor
public struct ServiceContext {
  /// The settings in force.
  public let configuration: Configuration
  /// The service's radio, with any driver.
  public let radio: any Radio
  public let scheduler: any Scheduler
  /// Creates a worker for blocking operations, such as disk access. It executes them one at a time, away from the loop.
  public let makeWorker: @LoopActor () -> any Offloading
  /// Must be called after each change of `Service.statusLine`.
  public let statusChanged: @LoopActor () -> Void
  /// The connection on which other programs call the service; nil without a bus.
  public let bus: BusConnection?

  public init(
    configuration: Configuration, radio: any Radio, scheduler: any Scheduler,
    makeWorker: @escaping @LoopActor () -> any Offloading, statusChanged: @escaping @LoopActor () -> Void,
    bus: BusConnection? = nil
  ) {
    self.configuration = configuration
    self.radio = radio
    self.scheduler = scheduler
    self.makeWorker = makeWorker
    self.statusChanged = statusChanged
    self.bus = bus
  }

  /// The directory for persistent state; nil means `$STATE_DIRECTORY`.
  public var stateDirectory: String? { configuration[StoreSettings.self].directory }
}

/// A bus object for the documentation.
public struct DescribedObject: Sendable {
  /// The object's path: `/org/earshot`; a final capital `N` stands for a number.
  public let path: String
  public let interface: Interface

  public init(_ path: String, _ interface: Interface) {
    self.path = path
    self.interface = interface
  }
}
