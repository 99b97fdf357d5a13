import Journal
import Loop

/// One exported object in the tree.
@LoopActor
final class ObjectNode {
  let path: ObjectPath
  let interfaces: [Interface]
  let manager: ObjectPath?
  private weak var tree: ObjectTree?
  /// The property values that listeners know, by interface and name: the values at the export of the object, or the
  /// last signalled ones.
  private var known: [String: [String: DBusValue]] = [:]
  /// The properties that may have changed in this loop iteration, by interface.
  private var changes: [String: [String]] = [:]
  private var isFlushScheduled = false
  private var isAlive = true

  init(_ path: ObjectPath, _ interfaces: [Interface], manager: ObjectPath?, tree: ObjectTree) {
    self.path = path
    self.interfaces = interfaces
    self.manager = manager
    self.tree = tree
    learn()
  }

  /// Records the current values as those that were signalled last, so that only later changes are signalled.
  func learn() {
    changes = [:]
    for interface in interfaces {
      for property in interface.properties where property.emits == .changes {
        known[interface.name, default: [:]][property.name] = try? property.read()
      }
    }
  }

  /// The manager that lists the object. It must be above the object, because a manager lists only children.
  var listingManager: ObjectPath? {
    guard let manager, path != manager, path.isWithin(manager) else { return nil }
    return manager
  }

  /// Ends the export: the object sends no more signals, not even about pending changes.
  func end() {
    isAlive = false
  }

  func interface(_ name: String) -> Interface? { interfaces.first { $0.name == name } }

  /// The interfaces that the audience may read.
  func interfaces(for audience: Audience) -> [Interface] { interfaces.filter { audience.maySee($0.audience) } }

  /// Whether the object exists for the audience: it has an interface that the audience may read.
  func isVisible(to audience: Audience) -> Bool { interfaces.contains { audience.maySee($0.audience) } }

  // MARK: Changes

  func changed(_ properties: [String]) {
    guard isAlive else { return }
    for property in properties {
      guard let interface = interfaces.first(where: { $0.property(property) != nil }) else {
        Log.shared.error("\(path.string) has no property \(property) that could have changed")
        continue
      }
      changed(property, of: interface)
    }
  }

  func changed(_ property: String, of interface: Interface) {
    guard changes[interface.name]?.contains(property) != true else { return }
    changes[interface.name, default: []].append(property)
    guard !isFlushScheduled else { return }
    isFlushScheduled = true
    EventLoop.shared.soon { [weak self] in self?.flush() }
  }

  /// Signals pending changes: to every listener, or for an interface of the group to its watchers. A property whose
  /// value equals the last signalled value is omitted.
  func flush() {
    isFlushScheduled = false
    guard isAlive, !changes.isEmpty, let tree else { return }
    let pending = changes
    changes = [:]
    for interface in interfaces where tree.isHeard(interface.audience) {
      guard let names = pending[interface.name] else { continue }
      let properties = names.compactMap { interface.property($0) }.filter { isChanged($0, of: interface.name) }
      let changed = properties.filter { interface.signalled($0) == .changes }
      let invalidated = properties.filter { interface.signalled($0) == .invalidates }.map(\.name)
      guard !changed.isEmpty || !invalidated.isEmpty else { continue }
      tree.emit(
        path, StandardName.properties, "PropertiesChanged",
        [.string(interface.name), Self.values(changed, for: interface.audience), .strings(invalidated)],
        for: interface.audience)
    }
  }

  /// Whether a property's value differs from the one that listeners know; records the new value.
  private func isChanged(_ property: Property, of interface: String) -> Bool {
    guard property.emits == .changes else { return true }
    // A value of the wrong type is reported when it is read for the signal.
    guard let value = try? property.read() else { return true }
    return known[interface, default: [:]].updateValue(value, forKey: property.name) != value
  }

  func emit(_ interface: String, _ signal: String, _ arguments: [DBusValue], to destination: String?) {
    guard isAlive, let tree else { return }
    guard let owner = self.interface(interface), let declared = owner.signals.first(where: { $0.name == signal })
    else {
      return Log.shared.error("\(path.string) has no signal \(interface).\(signal)")
    }
    guard declared.arguments.signature == arguments.signature else {
      return Log.shared.error("\(interface).\(signal) should carry \(declared.arguments.inWords) and is not sent")
    }
    flush()
    if let destination {
      tree.emit(path, interface, signal, arguments, to: destination)
    } else {
      tree.emit(path, interface, signal, arguments, for: owner.audience)
    }
  }

  // MARK: Values

  /// Returns `a{sv}` with the properties that the audience may read and that are readable now.
  static func values(_ properties: [Property], for audience: Audience) -> DBusValue {
    var entries: [DBusEntry] = []
    for property in properties where audience.maySee(property.audience) {
      do throws(DBusError) {
        entries.append(DBusEntry(.string(property.name), try property.read()))
      } catch {
        Log.shared.error("A property is left out: \(error)")
      }
    }
    return .dictionary(key: "s", value: "v", entries)
  }

  /// Returns `a{sa{sv}}` with the interfaces and properties that the audience may read.
  func interfacesAndProperties(for audience: Audience) -> DBusValue {
    Self.interfacesAndProperties(interfaces(for: audience), for: audience)
  }

  /// Returns `a{sa{sv}}` with the given interfaces, and the properties that the audience may read.
  static func interfacesAndProperties(_ interfaces: [Interface], for audience: Audience) -> DBusValue {
    .dictionary(
      key: "s", value: "a{sv}", interfaces.map { DBusEntry(.string($0.name), values($0.properties, for: audience)) })
  }
}

/// An object on the bus. Cancelling it, or releasing the last reference, removes it.
@LoopActor
public final class ExportedObject: Sendable {
  public let path: ObjectPath
  let node: ObjectNode
  private let registration: Registration

  init(_ node: ObjectNode, _ registration: Registration) {
    path = node.path
    self.node = node
    self.registration = registration
  }

  /// Removes the object from the tree, with the signal of its manager. A second call has no effect.
  public func cancel() {
    registration.cancel()
  }

  /// Signals changed properties at the end of the loop iteration, with their values at that time, in one signal for
  /// each interface. A property whose value equals the last signalled one is omitted. The signal names a property for
  /// the group without its value. Changes of an interface for the group are signalled only to watchers.
  public func changed(_ properties: String...) {
    node.changed(properties)
  }

  /// Sends a signal, after the signals about earlier property changes.
  ///
  /// - Parameter destination: the unique name of the only receiver; nil for every subscribed program or, for an
  ///   interface of the group, for every watcher.
  public func emit(
    _ interface: String, _ signal: String, _ arguments: [DBusValue] = [], to destination: String? = nil
  ) {
    node.emit(interface, signal, arguments, to: destination)
  }
}
