import Config
import DBus
import Journal
import Loop
import Radio

/// One service of the house: what it is called, which settings, messages and bus objects it has, and its life from start to
/// rest. A type that conforms is a service that can be listed; adding it to the list is all that the house needs.
///
/// The house makes a service, puts its faces on the bus, lets it `begin`, and goes on with `apply` at each reload. At the end
/// it calls `stop`, then `rest`. Everything happens on the loop. (swift-service-lifecycle was the model: services begin in
/// the order of the list, stop in the opposite order, and have a limited time for it.)
@LoopActor
public protocol Service: AnyObject, Sendable {
  /// The service's name, one word with a capital letter: `Manager1.Services` lists it.
  nonisolated static var name: String { get }
  /// Sections of the configuration file that are the service's own, with their defaults.
  nonisolated static var sections: [any SettingsSection.Type] { get }
  /// The links that the service needs and may have, with the default settings.
  nonisolated static var linkShare: LinkShare { get }
  /// The links that the service needs and may have with these settings; without it, those of `linkShare`.
  nonisolated static func linkShare(in configuration: Configuration) -> LinkShare
  /// Whether, with these settings, the service would rather have the radio send and hear messages to all in a way that changes them
  /// than not at all; without it, no.
  nonisolated static func takesDegradedRadio(in configuration: Configuration) -> Bool
  /// What this machine lacks for these settings, and settings that do not go together: one sentence for each problem.
  /// `earshotd --check-config` reports them; without it, none. It reads the file system and must not block.
  nonisolated static func problems(with configuration: Configuration) -> [String]
  /// Kinds of lines that the service writes to the journal, each with its text for the catalog. Services of one protocol may
  /// share some.
  nonisolated static var messages: [MessageID] { get }

  /// Describes the objects that the service puts on the bus, for files and documentation. Services of one protocol may share
  /// interfaces.
  ///
  /// - Parameters:
  ///   - radio: any radio; nothing is done with it.
  ///   - scheduler: any scheduler; nothing is done with it.
  static func objects(radio: any Radio, scheduler: any Scheduler) -> [DescribedObject]

  /// Makes the service from its settings; nil where they turn it off.
  static func make(_ context: ServiceContext) -> Self?

  /// Puts the service's objects on the bus.
  ///
  /// - Parameter manager: the path of the object manager that lists them.
  /// - Returns: what keeps them there.
  func export(on tree: ObjectTree, manager: ObjectPath) -> [AnyObject]

  /// Restores what an earlier run kept and does what the settings ask for without being called: the service's objects are on
  /// the bus already.
  func begin()

  /// Calls `then` once: when the service shows what an earlier run kept, after `limit` at the latest. The service has begun;
  /// what a disk that hangs keeps back comes later.
  func whenRestored(within limit: Duration, then: @escaping @LoopActor () -> Void)

  /// Takes on the settings that a reload changed. Those that need a restart are the old ones.
  func apply(_ configuration: Configuration)

  /// What the service is doing and what is wrong with it, in short sentences for `systemctl status`; empty if there is nothing
  /// to say. `ServiceContext.statusChanged` announces a new one.
  var statusLine: String { get }

  /// Leaves the radio; what is under way fails.
  func stop()

  /// Brings what is being written or erased on the disk to an end. The service has been stopped.
  ///
  /// - Parameter then: called once, when that is done, after `limit` at the latest.
  func rest(within limit: Duration, then: @escaping @LoopActor () -> Void)
}

extension Service {
  /// A service that keeps nothing on the disk has nothing to restore.
  public func whenRestored(within limit: Duration, then: @escaping @LoopActor () -> Void) { then() }

  public nonisolated static func linkShare(in configuration: Configuration) -> LinkShare { linkShare }

  public nonisolated static func takesDegradedRadio(in configuration: Configuration) -> Bool { false }

  public nonisolated static func problems(with configuration: Configuration) -> [String] { [] }

  /// A service that keeps nothing on the disk is at rest as soon as it has stopped.
  public func rest(within limit: Duration, then: @escaping @LoopActor () -> Void) { then() }
}
