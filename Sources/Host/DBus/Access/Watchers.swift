import Loop

/// The connections that receive signals about objects of the group.
///
/// A signal without a destination reaches every program on the bus. A signal about an object of the group is therefore
/// sent to the unique name of each of these connections.
@LoopActor
final class Watchers {
  private struct Watcher {
    /// The user of the watching connection; nil if the bus does not report it.
    let user: UInt32?
    /// Registration for the end of the watcher's connection, which removes the watcher.
    let end: Registration
  }

  private unowned let bus: any ObjectBus
  private var watchers: [String: Watcher] = [:]
  /// Number of refused calls of `add`.
  private(set) var refused: UInt64 = 0

  init(_ bus: any ObjectBus) {
    self.bus = bus
  }

  var isEmpty: Bool { watchers.isEmpty }

  /// The unique names of the watching connections, sorted.
  var names: [String] { watchers.keys.sorted() }

  /// Adds a connection until it ends. Has no effect for a connection that is already added.
  ///
  /// - Throws: `LimitExceeded` if the limit in total or for this user is reached.
  func add(_ name: String, user: UInt32?) throws(DBusError) {
    guard watchers[name] == nil else { return }
    let limits = bus.limits
    guard watchers.count < limits.watchers, watchers.values.count(where: { $0.user == user }) < limits.watchersOfUser
    else {
      refused += 1
      throw .limitExceeded(
        "Signals about objects of the group go to at most \(limits.watchers) programs, \(limits.watchersOfUser) of one user."
      )
    }
    let end = bus.watchOwner(of: name) { [weak self] owner in
      if owner == nil { self?.watchers[name] = nil }
    }
    watchers[name] = Watcher(user: user, end: end)
  }

  func remove(_ name: String) { watchers[name] = nil }
}
