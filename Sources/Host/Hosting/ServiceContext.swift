import Config
import Loop
import Radio

/// What the host offers to a service. (Its bus objects are exported by `Service.export`; everybody logs to `Log.shared`.)
@LoopActor
public struct ServiceContext {
  /// The settings in force.
  public let configuration: Configuration
  /// The service's radio, whatever stands behind it.
  public let radio: any Radio
  public let scheduler: any Scheduler
  /// Makes a place away from the loop that does one piece of work at a time, for a disk.
  public let makeWorker: @LoopActor () -> any Offloading
  /// To be called after each change of `Service.statusLine`.
  public let statusChanged: @LoopActor () -> Void

  public init(
    configuration: Configuration, radio: any Radio, scheduler: any Scheduler,
    makeWorker: @escaping @LoopActor () -> any Offloading, statusChanged: @escaping @LoopActor () -> Void
  ) {
    self.configuration = configuration
    self.radio = radio
    self.scheduler = scheduler
    self.makeWorker = makeWorker
    self.statusChanged = statusChanged
  }

  /// The directory for what must survive a restart; nil: `$STATE_DIRECTORY`.
  public var stateDirectory: String? { configuration[StoreSettings.self].directory }
}
