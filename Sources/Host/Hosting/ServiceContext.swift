import Config
import DBus
import Loop
import Radio

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

  /// The directory for persistent state; nil: `$STATE_DIRECTORY`.
  public var stateDirectory: String? { configuration[StoreSettings.self].directory }
}
