internal import CDBus
import Loop

/// The standard interfaces of every object, declared like other interfaces. The methods that only read are for
/// everybody, and answer with the items for their caller's audience.
///
/// An answer with values is sent after the signals about all earlier changes. A caller that watches an object and reads
/// a value therefore receives every later change of it.
@LoopActor
final class StandardInterfaces {
  let peer: Interface
  let introspectable: Interface
  let properties: Interface
  let objectManager: Interface

  init(_ tree: ObjectTree) {
    peer = Self.makePeer()
    introspectable = Self.makeIntrospectable(tree)
    properties = Self.makeProperties(tree)
    objectManager = Self.makeObjectManager(tree)
  }

  private static func makePeer() -> Interface {
    Interface(
      StandardName.peer, audience: .everybody,
      methods: [
        Method("Ping", audience: .everybody, returning: { _ in [] }).answeringOnly(),
        Method(
          "GetMachineId", out: [Argument("machine_uuid", "s")], audience: .everybody,
          returning: { (_) throws(DBusError) in [.string(try machineID())] }
        ).answeringOnly(),
      ])
  }

  private static func machineID() throws(DBusError) -> String {
    guard let text = dbus_try_get_local_machine_id(nil) else { throw .failed("This machine has no machine ID.") }
    defer { dbus_free(text) }
    return String(cString: text)
  }

  private static func makeIntrospectable(_ tree: ObjectTree) -> Interface {
    Interface(
      StandardName.introspectable, audience: .everybody,
      methods: [
        Method(
          "Introspect", out: [Argument("xml_data", "s")], audience: .everybody,
          returning: { [weak tree] call in
            let interfaces = tree?.interfaces(at: call.path, for: call.audience) ?? []
            return [.string(InterfaceXML.node(interfaces, tree?.children(of: call.path, for: call.audience) ?? []))]
          }
        ).answeringOnly()
      ])
  }

  private static func makeObjectManager(_ tree: ObjectTree) -> Interface {
    Interface(
      StandardName.objectManager, audience: .everybody,
      methods: [
        Method(
          "GetManagedObjects", out: [Argument("objects", "a{oa{sa{sv}}}")], audience: .everybody,
          returning: { [weak tree] call in
            [managedObjects(tree?.managed(by: call.path, for: call.audience) ?? [], for: call.audience)]
          }
        ).answeringOnly()
      ],
      signals: [
        Signal(
          "InterfacesAdded", [Argument("object", "o"), Argument("interfaces_and_properties", "a{sa{sv}}")]),
        Signal("InterfacesRemoved", [Argument("object", "o"), Argument("interfaces", "as")]),
      ])
  }

  /// The value `a{oa{sa{sv}}}` of `GetManagedObjects`. Several nodes at one path are combined to one object.
  private static func managedObjects(_ nodes: [ObjectNode], for audience: Audience) -> DBusValue {
    var entries: [(path: ObjectPath, interfaces: [DBusEntry])] = []
    for node in nodes {
      node.flush()
      guard case .dictionary(_, _, let interfaces) = node.interfacesAndProperties(for: audience) else { continue }
      if let last = entries.indices.last, entries[last].path == node.path {
        entries[last].interfaces += interfaces
      } else {
        entries.append((node.path, interfaces))
      }
    }
    return .dictionary(
      key: "o", value: "a{sa{sv}}",
      entries.map { DBusEntry(.objectPath($0.path), .dictionary(key: "s", value: "a{sv}", $0.interfaces)) })
  }

  private static func makeProperties(_ tree: ObjectTree) -> Interface {
    let interfaceName = Argument("interface_name", "s")
    let propertyName = Argument("property_name", "s")
    return Interface(
      StandardName.properties, audience: .everybody,
      methods: [
        Method(
          "Get", in: [interfaceName, propertyName], out: [Argument("value", "v")], audience: .everybody,
          returning: { [weak tree] (call) throws(DBusError) in
            let (node, _, property) = try find(tree, call)
            node.flush()
            return [try property.read()]
          }
        ).answeringOnly(),
        Method(
          "GetAll", in: [interfaceName], out: [Argument("properties", "a{sv}")], audience: .everybody,
          returning: { [weak tree] (call) throws(DBusError) in [try all(tree, call)] }
        ).answeringOnly(),
        Method(
          "Set", in: [interfaceName, propertyName, Argument("value", "v")],
          returning: { [weak tree] (call) throws(DBusError) in
            try set(tree, call)
            return []
          }),
      ],
      signals: [
        Signal(
          "PropertiesChanged",
          [interfaceName, Argument("changed_properties", "a{sv}"), Argument("invalidated_properties", "as")])
      ])
  }

  private typealias Found = (node: ObjectNode, interface: Interface, property: Property)

  /// The property that the first two arguments name. An empty interface matches any, as the specification allows.
  ///
  /// - Throws: `AccessDenied` if the caller may know the property but not read its value.
  private static func find(_ tree: ObjectTree?, _ call: MethodCall) throws(DBusError) -> Found {
    guard let interfaceName = call.arguments.first?.asString, let name = call.arguments.dropFirst().first?.asString
    else { throw .invalidArgs("An interface's and a property's name are missing.") }
    let names =
      interfaceName.isEmpty
      ? tree?.interfaces(at: call.path, for: call.audience).map(\.name) ?? [] : [interfaceName]
    for interfaceName in names {
      guard let tree, let (node, interface) = tree.interface(interfaceName, at: call.path),
        call.audience.maySee(interface.audience), let property = interface.property(name)
      else { continue }
      guard call.audience.maySee(property.audience) else { throw tree.refusal(of: property) }
      return (node, interface, property)
    }
    if names.count == 1, let only = names.first, !isKnown(only, tree, call) {
      throw .unknownInterface("The object \(call.path.string) has no interface \(only).")
    }
    throw .unknownProperty("The object \(call.path.string) has no property \(name) in \(interfaceName).")
  }

  private static func isKnown(_ interface: String, _ tree: ObjectTree?, _ call: MethodCall) -> Bool {
    tree?.interfaces(at: call.path, for: call.audience).contains { $0.name == interface } ?? false
  }

  private static func all(_ tree: ObjectTree?, _ call: MethodCall) throws(DBusError) -> DBusValue {
    let name = call.arguments.first?.asString ?? ""
    for node in tree?.nodes[call.path] ?? [] { node.flush() }
    let interfaces = tree?.interfaces(at: call.path, for: call.audience) ?? []
    if name.isEmpty { return ObjectNode.values(interfaces.flatMap(\.properties), for: call.audience) }
    guard let interface = interfaces.first(where: { $0.name == name }) else {
      throw .unknownInterface("The object \(call.path.string) has no interface \(name).")
    }
    return ObjectNode.values(interface.properties, for: call.audience)
  }

  private static func set(_ tree: ObjectTree?, _ call: MethodCall) throws(DBusError) {
    let (node, interface, property) = try find(tree, call)
    guard let set = property.set else { throw .readOnly("\(property.name) can only be read.") }
    guard case .variant(let value)? = call.arguments.last, value.signature == property.signature else {
      throw .invalidArgs("\(property.name) is of type \(property.signature).")
    }
    try set(value)
    node.changed(property.name, of: interface)
  }
}
