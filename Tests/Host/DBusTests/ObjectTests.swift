import Foundation
import Loop
import TestSupport
import Testing

@testable import DBus

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// Exported objects as clients see them.
struct ObjectTests {
  init() { EventLoop.shared.runInBackground() }

  static let properties = "org.freedesktop.DBus.Properties"
  static let manager = "org.freedesktop.DBus.ObjectManager"

  /// An object's state, and its interface.
  @LoopActor
  final class Lamp {
    var level: UInt32 = 1
    var name = "lamp"

    var interface: DBus.Interface {
      Interface(
        Table.interface, documentation: "A lamp <&\"> on a table.", audience: .everybody,
        methods: [Method("Blink", in: [Argument("times", "u")], errors: [.busy], handler: { $0.reply() })],
        properties: [
          Property(
            "Level", "u", documentation: "Brightness.", audience: .everybody, get: { .uint32(self.level) },
            set: { (value) throws(DBusError) in
              guard let level = value.asUInt32, level < 100 else { throw .invalidArgs("Level is below 100.") }
              self.level = level
            }),
          Property("Name", "s", audience: .everybody, get: { .string(self.name) }),
          Property("Secret", "s", emits: .invalidates, get: { .string("s") }),
          Property("Model", "s", emits: .const, get: { .string("m") }),
          Property("Broken", "s", emits: .none, get: { .byte(1) }),
        ],
        signals: [Signal("Blinked", [Argument("times", "u")])])
    }
  }

  @Test("Properties are read singly and all at once, and one whose value has a wrong type is left out")
  @LoopActor
  func reading() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Lamp().interface)
    let name = DBusValue.string(Table.interface)
    #expect(try await table.call("Get", [name, .string("Level")], on: Self.properties) == [.variant(.uint32(1))])
    #expect(
      try await table.call("Get", [.string(""), .string("Name")], on: Self.properties) == [.variant(.string("lamp"))])
    #expect(await table.error("Get", [name, .string("Broken")], on: Self.properties)?.is(.failed) == true)
    let all = try await table.call("GetAll", [name], on: Self.properties)
    #expect(
      all.first?.asDictionary
        == ["Level": .uint32(1), "Name": .string("lamp"), "Secret": .string("s"), "Model": .string("m")])
    #expect(try await table.call("GetAll", [.string(Self.properties)], on: Self.properties).first?.asDictionary == [:])
    object.cancel()
  }

  @Test("Setting a property checks its type, access and setter, and signals the change")
  @LoopActor
  func setting() async throws {
    let table = try await Table()
    defer { table.close() }
    let lamp = Lamp()
    let object = table.export(lamp.interface)
    let signals = Mailbox<[DBusValue]>()
    let match = SignalMatch(sender: Table.name, path: Table.path, interface: Self.properties, arg0: Table.interface)
    let subscription = table.client.subscribe(match) { signals.put($0.arguments) }
    let name = DBusValue.string(Table.interface)
    func set(_ property: String, _ value: DBusValue) async -> DBusError? {
      await table.error("Set", [name, .string(property), .variant(value)], on: Self.properties)
    }
    #expect(await set("Level", .string("x")) == .invalidArgs("Level is of type u."))
    #expect(await set("Level", .variant(.uint32(2)))?.is(.invalidArgs) == true)
    #expect(await set("Level", .uint32(100)) == .invalidArgs("Level is below 100."))
    #expect(await set("Name", .string("x"))?.is(.readOnly) == true)
    #expect(await set("Nothing", .string("x"))?.is(.unknownProperty) == true)
    #expect(lamp.level == 1)
    #expect(await set("Level", .uint32(7)) == nil)
    #expect(lamp.level == 7)
    #expect(try await signals.next() == [name, .options(["Level": .uint32(7)]), .strings([])])
    subscription.cancel()
    object.cancel()
  }

  /// Records the signals that the client receives from the service from now on.
  @LoopActor
  private static func signals(at table: Table) async throws -> (Mailbox<Message>, Registration) {
    let signals = Mailbox<Message>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name)) { signals.put($0) }
    // The bus has the match rule when it delivers this answer.
    _ = try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")
    return (signals, subscription)
  }

  @Test("A property change is signalled once, and not at all if the value stays the same")
  @LoopActor
  func unchanged() async throws {
    let table = try await Table()
    defer { table.close() }
    let lamp = Lamp()
    let object = table.export(lamp.interface)
    let (signals, subscription) = try await Self.signals(at: table)
    let name = DBusValue.string(Table.interface)
    // Neither property has changed its value; then one changes, and is signalled again and again.
    object.changed("Level", "Name")
    _ = try await table.call("Get", [name, .string("Level")], on: Self.properties)
    for _ in 0..<2 {
      lamp.level = 2
      object.changed("Level", "Name")
      _ = try await table.call("Get", [name, .string("Level")], on: Self.properties)
    }
    table.service.emit("/", "org.example.End", "End")
    #expect(try await signals.next().arguments == [name, .options(["Level": .uint32(2)]), .strings([])])
    #expect(try await signals.next().member == "End")
    subscription.cancel()
    object.cancel()
  }

  @Test(
    "A property value that was read has been signalled before, even if it changes back at once", arguments: [0, 1, 2])
  @LoopActor
  func readAmidChanges(way: Int) async throws {
    let table = try await Table()
    defer { table.close() }
    let lamp = Lamp()
    table.service.objects.exportManager("/org")
    let object = table.service.objects.export(Table.path, interfaces: [lamp.interface], manager: "/org")
    let levels = Mailbox<DBusValue>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name, member: "PropertiesChanged")) {
      levels.put($0.arguments[1]["Level"] ?? .bool(false))
    }
    _ = try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")
    lamp.level = 2
    object.changed("Level")
    // These calls are made in one loop iteration, before the change is signalled.
    let calls: [(ObjectPath, String, String, [DBusValue])] = [
      (Table.path, Self.properties, "Get", [.string(Table.interface), .string("Level")]),
      (Table.path, Self.properties, "GetAll", [.string(Table.interface)]),
      ("/org", "org.freedesktop.DBus.ObjectManager", "GetManagedObjects", []),
    ]
    let (path, interface, member, arguments) = calls[way]
    var call = Message.call(Table.name, path, interface, member, arguments)
    (call.sender, call.serial) = (table.client.uniqueName, 9000)
    let answer = Answer(to: call, over: try #require(table.service.answers))
    table.service.objects.receive(call, answer)
    #expect(answer.isGiven)
    lamp.level = 1
    object.changed("Level")
    #expect(try await levels.next() == .uint32(2))
    #expect(try await levels.next() == .uint32(1))
    subscription.cancel()
    object.cancel()
  }

  @Test("Property changes in one loop iteration give one signal with the last values, before later signals")
  @LoopActor
  func batching() async throws {
    let table = try await Table()
    defer { table.close() }
    let lamp = Lamp()
    let object = table.export(lamp.interface)
    let (signals, subscription) = try await Self.signals(at: table)
    let name = DBusValue.string(Table.interface)

    for level in [5, 6] as [UInt32] {
      lamp.level = level
      object.changed("Level", "Model")
    }
    lamp.name = "new"
    object.changed("Name", "Secret", "Nothing")
    let changes = try await signals.next()
    #expect(changes.interface == Self.properties && changes.member == "PropertiesChanged")
    #expect(
      changes.arguments == [
        name,
        .dictionary(
          key: "s", value: "v",
          [
            DBusEntry(.string("Level"), .variant(.uint32(6))), DBusEntry(.string("Name"), .variant(.string("new"))),
          ]),
        .strings(["Secret"]),
      ])

    lamp.level = 8
    object.changed("Level")
    object.emit(Table.interface, "Blinked", [.uint32(2)])
    object.emit(Table.interface, "Blinked", [.string("of the wrong type")])
    object.emit(Table.interface, "Unknown")
    lamp.level = 9
    object.changed("Level")
    #expect(try await signals.next().arguments == [name, .options(["Level": .uint32(8)]), .strings([])])
    #expect(try await signals.next().arguments == [.uint32(2)])
    #expect(try await signals.next().arguments == [name, .options(["Level": .uint32(9)]), .strings([])])
    // No signal is sent for an object that was removed.
    lamp.level = 10
    object.changed("Level")
    object.cancel()
    object.changed("Level")
    object.emit(Table.interface, "Blinked", [.uint32(3)])
    table.service.emit("/", "org.example.End", "End")
    #expect(try await signals.next().member == "PropertiesChanged")
    #expect(try await signals.next().member == "End")
    subscription.cancel()
  }

  @Test("The object manager lists its objects, and signals each addition and removal")
  @LoopActor
  func manager() async throws {
    let table = try await Table()
    defer { table.close() }
    let signals = Mailbox<Message>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name, interface: Self.manager)) {
      signals.put($0)
    }
    _ = try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")
    let objects = table.service.objects
    objects.exportManager(Table.path)
    func empty(_ name: String) -> DBus.Interface {
      Interface(name, properties: [Property("P", "u", get: { .uint32(1) })])
    }
    let first = objects.export("/org/example/a", interfaces: [empty("a.A"), empty("a.B")], manager: Table.path)
    var second: ExportedObject? = objects.export("/org/example/b", interfaces: [empty("a.A")], manager: Table.path)
    let hidden = objects.export("/org/example/c", interfaces: [empty("a.A")])

    let value = DBusValue.options(["P": .uint32(1)])
    let both = DBusValue.dictionary(
      key: "s", value: "a{sv}", [DBusEntry(.string("a.A"), value), DBusEntry(.string("a.B"), value)])
    let one = DBusValue.dictionary(key: "s", value: "a{sv}", [DBusEntry(.string("a.A"), value)])
    #expect(
      try await table.call("GetManagedObjects", on: Self.manager) == [
        .dictionary(
          key: "o", value: "a{sa{sv}}",
          [
            DBusEntry(.objectPath("/org/example/a"), both), DBusEntry(.objectPath("/org/example/b"), one),
          ])
      ])
    let added = try await signals.next()
    #expect(added.member == "InterfacesAdded" && added.path == Table.path)
    #expect(added.arguments == [.objectPath("/org/example/a"), both])
    #expect(try await signals.next().arguments == [.objectPath("/org/example/b"), one])
    second = nil
    first.cancel()
    first.cancel()
    let removed = try await signals.next()
    #expect(removed.member == "InterfacesRemoved" && second == nil)
    #expect(removed.arguments == [.objectPath("/org/example/b"), .strings(["a.A"])])
    #expect(try await signals.next().arguments == [.objectPath("/org/example/a"), .strings(["a.A", "a.B"])])
    let left = try await table.call("GetManagedObjects", on: Self.manager)
    #expect(left.first?.asDictionary == [:])
    subscription.cancel()
    hidden.cancel()
  }

  @Test("Two exports at one path form one object, and the interface exported last answers")
  @LoopActor
  func sharedPath() async throws {
    let table = try await Table()
    defer { table.close() }
    func number(_ interface: String, _ number: UInt32) -> ExportedObject {
      table.export(
        Interface(
          interface, methods: [Method("Number", out: [Argument("n", "u")], returning: { _ in [.uint32(number)] })]))
    }
    let first = number("a.A", 1)
    let other = number("a.B", 2)
    let second = number("a.A", 3)
    #expect(try await table.call("Number", on: "a.A") == [.uint32(3)])
    #expect(try await table.call("Number", on: "a.B") == [.uint32(2)])
    second.cancel()
    #expect(try await table.call("Number", on: "a.A") == [.uint32(1)])
    first.cancel()
    #expect(await table.error("Number", on: "a.A")?.is(.unknownInterface) == true)
    other.cancel()
    #expect(await table.error("Number", on: "a.A")?.is(.unknownObject) == true)
  }

  @Test("Every ancestor of an object can be introspected and lists its children")
  @LoopActor
  func introspection() async throws {
    let table = try await Table()
    defer { table.close() }
    let lamp = table.export(Lamp().interface)
    let below = table.service.objects.export("/org/example/x/y", interfaces: [Interface("a.A")])
    let beside = table.service.objects.export("/org/examples", interfaces: [Interface("a.A")])
    func introspect(_ path: ObjectPath) async throws -> Introspected {
      let answer = try await table.client.call(
        Table.name, path, "org.freedesktop.DBus.Introspectable", "Introspect")
      return try #require(Introspected(answer.first?.asString ?? ""))
    }
    #expect(try await introspect("/").nodes == ["org"])
    #expect(try await introspect("/org").nodes == ["example", "examples"])
    #expect(
      try await introspect("/org").interfaces == ["org.freedesktop.DBus.Introspectable", "org.freedesktop.DBus.Peer"])
    #expect(try await introspect("/org/example/x").nodes == ["y"])
    let whole = try await introspect(Table.path)
    #expect(whole.nodes == ["x"])
    #expect(
      whole.interfaces == [
        Table.interface, Self.properties, "org.freedesktop.DBus.Introspectable", "org.freedesktop.DBus.Peer",
      ])
    #expect(whole.documentation.contains("A lamp <&\"> on a table."))
    #expect(whole.documentation.contains("Errors: org.earshot.Error.Busy."))
    #expect(
      await table.error("Introspect", on: "org.freedesktop.DBus.Introspectable", at: "/no")?.is(.unknownObject) == true)
    for object in [lamp, below, beside] { object.cancel() }
  }

  @Test("Every object path answers Ping and GetMachineId")
  @LoopActor
  func peer() async throws {
    let table = try await Table()
    defer { table.close() }
    let peer = "org.freedesktop.DBus.Peer"
    #expect(try await table.client.call(Table.name, "/nowhere", peer, "Ping").isEmpty)
    let answer: String?
    do throws(DBusError) {
      answer = try await table.client.call(Table.name, "/nowhere", peer, "GetMachineId").first?.asString
    } catch {
      // A machine without a machine ID reports an error.
      #expect(error.is(.failed))
      return
    }
    #expect(answer?.count == 32)
  }

  @Test("An interface is described as introspection XML")
  @LoopActor
  func xml() {
    let expected = """
        <interface name="org.example.Thing1">
          <annotation name="org.gtk.GDBus.DocString" value="A lamp &lt;&amp;&quot;&gt; on a table."/>
          <method name="Blink">
            <annotation name="org.gtk.GDBus.DocString" value="Errors: org.earshot.Error.Busy."/>
            <arg name="times" type="u" direction="in"/>
          </method>
          <signal name="Blinked">
            <arg name="times" type="u"/>
          </signal>
          <property name="Level" type="u" access="readwrite">
            <annotation name="org.gtk.GDBus.DocString" value="Brightness."/>
          </property>
          <property name="Name" type="s" access="read"/>
          <property name="Secret" type="s" access="read">
            <annotation name="org.earshot.Audience" value="group"/>
            <annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="invalidates"/>
          </property>
          <property name="Model" type="s" access="read">
            <annotation name="org.earshot.Audience" value="group"/>
            <annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="const"/>
          </property>
          <property name="Broken" type="s" access="read">
            <annotation name="org.earshot.Audience" value="group"/>
            <annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="false"/>
          </property>
        </interface>

      """
    #expect(InterfaceXML.render(Lamp().interface) == expected)
    #expect(
      InterfaceXML.render(Interface("a.A", documentation: "D.")).contains(
        """
          <interface name="a.A">
            <annotation name="org.gtk.GDBus.DocString" value="D."/>
            <annotation name="org.earshot.Audience" value="group"/>
          </interface>
        """))
    #expect(InterfaceXML.document([Lamp().interface]).hasSuffix("<node>\n" + expected + "</node>\n"))
  }
}

/// The content of an introspection document, read by an XML parser.
private final class Introspected: NSObject, XMLParserDelegate {
  private(set) var nodes: [String] = []
  private(set) var interfaces: [String] = []
  private(set) var documentation: [String] = []

  init?(_ xml: String) {
    super.init()
    let parser = XMLParser(data: Data(xml.utf8))
    parser.delegate = self
    guard parser.parse() else { return nil }
  }

  func parser(
    _ parser: XMLParser, didStartElement element: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String]
  ) {
    let name = attributes["name"] ?? ""
    if element == "node", !name.isEmpty { nodes.append(name) }
    if element == "interface" { interfaces.append(name) }
    if element == "annotation", let value = attributes["value"] { documentation.append(value) }
  }
}
