import Journal
import Loop

/// What the tree knows of one exported object.
@LoopActor
final class ObjectNode {
  let path: ObjectPath
  let interfaces: [Interface]
  let manager: ObjectPath?
  private weak var tree: ObjectTree?
  /// The interfaces' names, and which of their properties changed in this turn of the loop.
  private var changes: [String: [String]] = [:]
  private var isFlushScheduled = false
  private var isAlive = true

  init(_ path: ObjectPath, _ interfaces: [Interface], manager: ObjectPath?, tree: ObjectTree) {
    self.path = path
    self.interfaces = interfaces
    self.manager = manager
    self.tree = tree
  }

  /// From now on nothing is sent for it.
  func end() {
    isAlive = false
  }

  func interface(_ name: String) -> Interface? { interfaces.first { $0.name == name } }

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

  /// Tells the changes that are not told yet.
  func flush() {
    isFlushScheduled = false
    guard isAlive, !changes.isEmpty else { return }
    let told = changes
    changes = [:]
    for interface in interfaces {
      guard let names = told[interface.name] else { continue }
      let properties = names.compactMap { interface.property($0) }
      let changed = properties.filter { $0.emits == .changes }
      let invalidated = properties.filter { $0.emits == .invalidates }.map(\.name)
      guard !changed.isEmpty || !invalidated.isEmpty else { continue }
      tree?.emit(
        path, StandardName.properties, "PropertiesChanged",
        [.string(interface.name), Self.values(changed), .strings(invalidated)])
    }
  }

  func emit(_ interface: String, _ signal: String, _ arguments: [DBusValue]) {
    guard isAlive else { return }
    guard let declared = self.interface(interface)?.signals.first(where: { $0.name == signal }) else {
      return Log.shared.error("\(path.string) has no signal \(interface).\(signal)")
    }
    guard declared.arguments.signature == arguments.signature else {
      return Log.shared.error("\(interface).\(signal) should carry \(declared.arguments.inWords) and is not sent")
    }
    flush()
    tree?.emit(path, interface, signal, arguments)
  }

  // MARK: Values

  /// `a{sv}` of the properties that can be read now.
  static func values(_ properties: [Property]) -> DBusValue {
    var entries: [DBusEntry] = []
    for property in properties {
      do throws(DBusError) {
        entries.append(DBusEntry(.string(property.name), try property.read()))
      } catch {
        Log.shared.error("A property is left out: \(error)")
      }
    }
    return .dictionary(key: "s", value: "v", entries)
  }

  /// `a{sa{sv}}`: all interfaces with all their properties.
  func interfacesAndProperties() -> DBusValue {
    .dictionary(
      key: "s", value: "a{sv}",
      interfaces.map { DBusEntry(.string($0.name), Self.values($0.properties)) })
  }
}
