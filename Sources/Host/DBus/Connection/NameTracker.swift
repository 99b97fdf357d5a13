import Loop

/// The owners of bus names, for the names that this process asks about.
@LoopActor
final class NameTracker {
  private final class Watcher {
    private let handler: @LoopActor (String?) -> Void
    private let hearsEachBus: Bool
    /// The owner that the handler was called with last.
    private var reported: String??
    var isAlive = true

    init(hearsEachBus: Bool, _ handler: @escaping @LoopActor (String?) -> Void) {
      (self.hearsEachBus, self.handler) = (hearsEachBus, handler)
    }

    /// Calls the handler, unless the owner is the one that it was called with last.
    @LoopActor
    func report(_ owner: String?) {
      guard isAlive, reported != .some(owner) else { return }
      reported = .some(owner)
      handler(owner)
    }

    /// The bus is gone.
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

  /// The name's owner, as far as it is known.
  func owner(of name: String) -> String? { names[name]?.owner }

  /// Follows a name until the registration goes.
  func track(_ name: String) -> Registration {
    names[name, default: Name()].uses += 1
    if names[name]?.uses == 1 {
      connection.rules.add(Self.rule(name))
      ask(name)
    }
    return Registration { [weak self] in self?.untrack(name) }
  }

  /// Follows a name; calls the handler with its owner once that is known, and with each other one after it.
  ///
  /// - Parameter hearsEachBus: whether each new bus's first word is told, also where it is that nobody has the name, as before.
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

  /// Takes a NameOwnerChanged of the bus.
  func ownerChanged(_ message: Message) {
    guard message.arguments.count == 3, let name = message.arguments[0].asString,
      let owner = message.arguments[2].asString
    else { return }
    set(name, owner.isEmpty ? nil : owner)
  }

  /// The bus is new: asks it about every name.
  func askAll() {
    for name in names.keys.sorted() { ask(name) }
  }

  /// The bus is gone, and every name with it.
  func forgetAll() {
    for name in names.keys.sorted() {
      if names[name]?.owner != nil { set(name, nil) }
      names[name]?.isKnown = false
      for watcher in names[name]?.watchers ?? [] { watcher.lostBus() }
    }
  }

  /// Asks the bus for the owner of a name. Its messages come in order, so the answer is never older than a change that came
  /// before it.
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
