import Common
import DBus

/// An event that the service reports on the bus by a signal.
public enum ServiceEvent: Sendable {
  /// A new object, with its interfaces and their properties.
  case added(ObjectPath, [String: [String: DBusValue]])
  case removed(ObjectPath)
  /// Properties of an interface have new values.
  ///
  /// `invalidated` are the names of properties whose values are for the group alone. `known` are all properties of the
  /// interface that this program has received, the new values included.
  case changed(
    ObjectPath, interface: String, values: [String: DBusValue], invalidated: [String], known: [String: DBusValue])
  /// Any other signal.
  case signal(ObjectPath, interface: String, name: String, arguments: [DBusValue])

  /// The object that the event is about.
  var path: ObjectPath {
    switch self {
    case .added(let path, _), .removed(let path): path
    case .changed(let path, _, _, _, _), .signal(let path, _, _, _): path
    }
  }

  /// A sentence made from the names in the event, for events for which no service has a sentence.
  var plainText: String {
    switch self {
    case .added(let path, _): "\(Self.name(path)) was added."
    case .removed(let path): "\(Self.name(path)) was removed."
    case .changed(let path, _, let values, let invalidated, _):
      "\(Self.name(path)): "
        + (values.sorted { $0.key < $1.key }.map { Self.words($0.key) + " " + Self.shown($0.value) }
        + invalidated.sorted().map { Self.words($0) + " changed" }).joined(separator: ", ") + "."
    case .signal(let path, _, let name, let arguments):
      "\(Self.name(path)): "
        + ([Self.words(name)] + arguments.map(Self.shown)).joined(separator: " ") + "."
    }
  }

  /// The name of an object for people: its path below the service's own, or `service`.
  static func name(_ path: ObjectPath) -> String {
    let prefix = Client.manager.string + "/"
    return path.string.hasPrefix(prefix) ? String(path.string.dropFirst(prefix.count)) : "service"
  }

  private static func shown(_ value: DBusValue) -> String {
    let text = value.text
    return text.isEmpty ? "(empty)" : PrintableText.clean(text, limit: 300)
  }

  /// Splits a name in camel case into words: `LinesLeftOut` becomes `lines left out`.
  private static func words(_ name: String) -> String {
    var words = ""
    for character in name {
      if character.isUppercase, !words.isEmpty { words += " " }
      words += character.lowercased()
    }
    return words
  }
}

/// Turns signals of the service into events, and stores the properties of all objects to complete the events.
struct ServiceEvents {
  private var known: [String: [String: [String: DBusValue]]] = [:]

  /// Replaces the stored objects by those that the service lists.
  mutating func reset(_ objects: ToolPart.Objects) { known = objects }

  /// Turns a message into an event.
  ///
  /// - Returns: the event; nil for a message that is not a signal of an object.
  mutating func event(_ message: Message) -> ServiceEvent? {
    guard let path = message.path, let name = message.member else { return nil }
    let first = message.arguments.first
    switch name {
    case "InterfacesAdded":
      guard let added = first?.asObjectPath, let interfaces = message.arguments.last?.asDictionary else { break }
      let properties = interfaces.mapValues { $0.asDictionary ?? [:] }
      known[added.string] = properties
      return .added(added, properties)
    case "InterfacesRemoved":
      guard let removed = first?.asObjectPath else { break }
      known[removed.string] = nil
      return .removed(removed)
    case "PropertiesChanged":
      guard let (interface, values) = message.changedProperties else { break }
      let all = (known[path.string]?[interface] ?? [:]).merging(values) { $1 }
      known[path.string, default: [:]][interface] = all
      return .changed(
        path, interface: interface, values: values, invalidated: message.arguments[2].asStrings ?? [], known: all)
    default: break
    }
    return .signal(path, interface: message.interface ?? "", name: name, arguments: message.arguments)
  }
}
