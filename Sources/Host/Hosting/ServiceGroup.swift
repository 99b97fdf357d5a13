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
  private var adaptors: [AnyObject] = []

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
    adaptors += members.flatMap { $0.service.export(on: tree, manager: manager) }
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

/// Waits until all services have completed an operation, or until a time limit, and then calls its callback once.
@LoopActor
final class ServiceWait {
  private var missing: [Int: String]
  private var then: (@LoopActor () -> Void)?
  private var timer: Registration?

  private let complaint: String

  /// - Parameter complaint: the journal's text about services that take too long, before their names.
  init(_ names: [String], _ complaint: String, _ then: @escaping @LoopActor () -> Void) {
    self.complaint = complaint
    missing = Dictionary(uniqueKeysWithValues: names.enumerated().map { ($0.offset, $0.element) })
    self.then = then
  }

  /// Starts the time limit. The wait ends immediately if all services have completed the operation.
  func begin(_ scheduler: any Scheduler, atMost limit: Duration) {
    guard !missing.isEmpty else { return end() }
    timer = scheduler.schedule(after: limit) {
      let names = self.missing.sorted { $0.key < $1.key }.map(\.value).joined(separator: ", ")
      Log.shared.warning("\(self.complaint): \(names)")
      self.end()
    }
  }

  func isOver(_ index: Int) {
    missing[index] = nil
    // The wait does not end before `begin`, because other services may not have been called yet.
    if missing.isEmpty, timer != nil { end() }
  }

  private func end() {
    let then = then
    self.then = nil
    timer = nil
    then?()
  }
}
