import Config
import DBus
import Journal
import Loop

/// The enabled services in the order of the list. They begin in that order and stop in reverse.
@LoopActor
public final class ServiceGroup {
  /// Additional time for a service that exceeds its time limit for `rest`.
  nonisolated static let grace = Duration.milliseconds(500)

  private let members: [(name: String, service: any Service)]
  private let scheduler: any Scheduler
  private var faces: [AnyObject] = []

  /// Creates the enabled services.
  ///
  /// - Parameters:
  ///   - kinds: all services.
  ///   - context: creates the context of each service.
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

  /// The names of the enabled services.
  public var names: [String] { members.map(\.name) }

  /// Exports the objects of all services, for the lifetime of the group.
  public func export(on tree: ObjectTree, manager: ObjectPath) {
    faces += members.flatMap { $0.service.export(on: tree, manager: manager) }
  }

  /// Begins all services.
  ///
  /// - Parameter then: called once, when all have restored their stored state, at the latest after `limit` and `grace`.
  public func begin(within limit: Duration = .zero, then: @escaping @LoopActor () -> Void = {}) {
    for member in members { member.service.begin() }
    let wait = ServiceWait(members.map(\.name), "Services not restored in time, no longer waited for", then)
    for (index, member) in members.enumerated() {
      member.service.whenRestored(within: limit) { wait.isOver(index) }
    }
    wait.begin(scheduler, atMost: limit + Self.grace)
  }

  public func apply(_ configuration: Configuration) {
    for member in members { member.service.apply(configuration) }
  }

  /// The joined status lines of the services.
  public var statusLine: String {
    members.map(\.service.statusLine).filter { !$0.isEmpty }.joined(separator: " ")
  }

  /// Stops all services, and lets them complete their disk operations.
  ///
  /// - Parameter then: called once, when all have completed. A service that needs more than `limit` and `grace` is
  ///   named in the journal and not waited for.
  public func stop(within limit: Duration, then: @escaping @LoopActor () -> Void) {
    for member in members.reversed() { member.service.stop() }
    let wait = ServiceWait(members.map(\.name), "Services not stopped in time, no longer waited for", then)
    for (index, member) in members.enumerated() {
      member.service.rest(within: limit) { wait.isOver(index) }
    }
    wait.begin(scheduler, atMost: limit + Self.grace)
  }
}
