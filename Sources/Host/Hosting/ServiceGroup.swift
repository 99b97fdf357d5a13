import Config
import DBus
import Journal
import Loop

/// The services that are on, in the order of the list: begun in that order, stopped in the opposite one.
@LoopActor
public final class ServiceGroup {
  /// A service that breaks its promise to rest in time has so much more before the end comes without it.
  nonisolated static let grace = Duration.milliseconds(500)

  private let members: [(name: String, service: any Service)]
  private let scheduler: any Scheduler
  private var faces: [AnyObject] = []

  /// Makes the services that their settings do not turn off.
  ///
  /// - Parameters:
  ///   - kinds: the services there are.
  ///   - context: makes what each of them is offered.
  public init(
    _ kinds: [any Service.Type], scheduler: any Scheduler,
    context: @LoopActor (any Service.Type) -> ServiceContext
  ) {
    self.scheduler = scheduler
    members = kinds.compactMap { kind in
      let service: (any Service)? = kind.make(context(kind))
      return service.map { (kind.name, $0) }
    }
  }

  /// The names of the services that are on.
  public var names: [String] { members.map(\.name) }

  /// Puts the objects of all services on the bus, for as long as the group lives.
  public func export(on tree: ObjectTree, manager: ObjectPath) {
    faces += members.flatMap { $0.service.export(on: tree, manager: manager) }
  }

  /// Begins all services.
  ///
  /// - Parameter then: called once, when all show what an earlier run kept, after `limit` and `grace` at the latest.
  public func begin(within limit: Duration = .zero, then: @escaping @LoopActor () -> Void = {}) {
    for member in members { member.service.begin() }
    let wait = ServiceWait(members.map(\.name), "Not restored yet, and not waited for any longer", then)
    for (index, member) in members.enumerated() {
      member.service.whenRestored(within: limit) { wait.isOver(index) }
    }
    wait.begin(scheduler, atMost: limit + Self.grace)
  }

  public func apply(_ configuration: Configuration) {
    for member in members { member.service.apply(configuration) }
  }

  /// What the services have to say, one after the other.
  public var statusLine: String {
    members.map(\.service.statusLine).filter { !$0.isEmpty }.joined(separator: " ")
  }

  /// Stops all services, and lets them bring their disk's work to an end.
  ///
  /// - Parameter then: called once, when all are at rest. One that is not at rest after `limit` and `grace` is named in the
  ///   journal and waited for no longer.
  public func stop(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    for member in members.reversed() { member.service.stop() }
    let wait = ServiceWait(members.map(\.name), "Not waited for any longer", then)
    for (index, member) in members.enumerated() {
      member.service.rest(within: limit) { wait.isOver(index) }
    }
    wait.begin(scheduler, atMost: limit + Self.grace)
  }
}
