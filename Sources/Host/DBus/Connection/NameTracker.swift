import Loop

/// The owners of the bus names that this process has requested.
@LoopActor
final class NameTracker {
  private final class Watcher {
    private let handler: @LoopActor (String?) -> Void
    private let hearsEachBus: Bool
    /// The owner in the last call of the handler.
    private var reported: String??
    var isAlive = true

    init(hearsEachBus: Bool, _ handler: @escaping @LoopActor (String?) -> Void) {
      (self.hearsEachBus, self.handler) = (hearsEachBus, handler)
    }

    /// Calls the handler, unless the owner is unchanged since its last call.
    @LoopActor
    func report(_ owner: String?) {
      guard isAlive, reported != .some(owner) else { return }
      reported = .some(owner)
      handler(owner)
    }

    /// Handles the loss of the bus. If `hearsEachBus` is true, the first result on the next bus is reported even if it
    /// is unchanged.
    func lostBus() { if hearsEachBus { reported = nil } }
  }

  private struct Name {
    var uses = 0
    var isKnown = false
    var owner: String?
    var watchers: [Watcher] = []
  }

  private unowned let connection: BusConnection
  private var names: [String: Name] = [:]

  init(_ connection: BusConnection) {
    self.connection = connection
  }

  /// The name's owner, if known.
  func owner(of name: String) -> String? { names[name]?.owner }

  /// Tracks a name for the lifetime of the registration.
  func track(_ name: String) -> Registration {
    names[name, default: Name()].uses += 1
    if names[name]?.uses == 1 {
      connection.rules.add(Self.rule(name))
      ask(name)
    }
    return Registration { [weak self] in self?.untrack(name) }
  }

  /// Tracks a name; calls the handler with its owner once it is known, and after each change.
  ///
  /// - Parameter hearsEachBus: whether the first result on each new bus is reported, even if the name again has no
  ///   owner.
  func watch(
    _ name: String, hearsEachBus: Bool = false, _ handler: @escaping @LoopActor (String?) -> Void
  ) -> Registration {
    let tracking = track(name)
    let watcher = Watcher(hearsEachBus: hearsEachBus, handler)
    names[name]?.watchers.append(watcher)
    EventLoop.shared.soon { [weak self] in
      guard let entry = self?.names[name], entry.isKnown else { return }
      watcher.report(entry.owner)
    }
    return Registration { [weak self] in
      watcher.isAlive = false
      self?.names[name]?.watchers.removeAll { $0 === watcher }
      tracking.cancel()
    }
  }

  private func untrack(_ name: String) {
    guard let uses = names[name]?.uses else { return }
    if uses > 1 {
      names[name]?.uses = uses - 1
    } else {
      names[name] = nil
      connection.rules.remove(Self.rule(name))
    }
  }

  /// Handles a `NameOwnerChanged` signal of the bus.
  func ownerChanged(_ message: Message) {
    guard message.arguments.count == 3, let name = message.arguments[0].asString,
      let owner = message.arguments[2].asString
    else { return }
    set(name, owner.isEmpty ? nil : owner)
  }

  /// Asks a new bus for the owners of all tracked names.
  func askAll() {
    for name in names.keys.sorted() { ask(name) }
  }

  /// Handles the loss of the bus: all tracked names have no owner from then on.
  func forgetAll() {
    for name in names.keys.sorted() {
      if names[name]?.owner != nil { set(name, nil) }
      names[name]?.isKnown = false
      for watcher in names[name]?.watchers ?? [] { watcher.lostBus() }
    }
  }

  /// Requests the owner of a name. The bus sends messages in order, so the answer is never older than an earlier
  /// signal.
  private func ask(_ name: String) {
    guard connection.uniqueName != nil else { return }
    connection.callBus("GetNameOwner", [.string(name)]) { [weak self] result in
      switch result {
      case .success(let values): self?.set(name, values.first?.asString)
      case .failure(let error) where error.is(.nameHasNoOwner): self?.set(name, nil)
      case .failure: break
      }
    }
  }

  private func set(_ name: String, _ owner: String?) {
    guard let entry = names[name] else { return }
    names[name]?.isKnown = true
    names[name]?.owner = owner
    for watcher in entry.watchers { watcher.report(owner) }
  }

  private static func rule(_ name: String) -> String {
    SignalMatch(sender: Bus.name, path: Bus.path, interface: Bus.interface, member: "NameOwnerChanged", arg0: name).rule
      ?? ""
  }
}
