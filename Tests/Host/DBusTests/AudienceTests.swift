import Common
import Glibc
import Loop
import TestSupport
import Testing

@testable import DBus

@Suite("Properties, objects and signals for the service's group only")
struct AudienceTests {
  init() { EventLoop.shared.runInBackground() }

  private static let properties = "org.freedesktop.DBus.Properties"
  private static let manager = "org.freedesktop.DBus.ObjectManager"
  private static let introspectable = "org.freedesktop.DBus.Introspectable"
  private static let refusal = "Only friends may do this."
  private static let secret = "secret-4711"

  /// A service with a public object, a restricted one, and one with an interface of each kind.
  @LoopActor
  private final class House {
    let table: Table
    let values = Values()
    let open: ExportedObject
    var hidden: ExportedObject?
    let mixed: ExportedObject

    /// - Parameter isOfGroup: whether this test's user counts as a member of the group.
    init(isOfGroup: Bool) async throws {
      let values = values
      table = try await Table(configuration: "<policy context=\"default\"><allow user=\"*\"/></policy>")
      let objects = table.service.objects
      objects.access = AccessRule(refusal: AudienceTests.refusal) { ($0.uid == getuid()) == isOfGroup }
      objects.exportManager(Table.path)
      open = objects.export(
        Table.path,
        interfaces: [
          Interface(
            Table.interface, audience: .everybody, methods: [Method("Do", returning: { _ in [] })],
            properties: values.pair,
            signals: [Signal("Done", [Argument("what", "s")])])
        ], manager: Table.path)
      mixed = objects.export(
        "/org/example/mixed",
        interfaces: [
          Interface("a.Open", audience: .everybody, properties: values.pair),
          Interface(
            "a.Hidden",
            properties: [Property("Shown", "s", audience: .everybody, get: { .string(values.secret) })],
            signals: [Signal("Said", [Argument("what", "s")])]),
        ], manager: Table.path)
    }

    /// Exports a restricted object below the public one.
    func hide() {
      let values = values
      hidden = table.service.objects.export(
        "/org/example/hidden/peer1",
        interfaces: [
          Interface(
            "a.Peer", methods: [Method("Do", returning: { _ in [] })],
            properties: [
              Property("Name", "s", audience: .everybody, get: { .string(values.secret) }),
              Property("Stale", "s", audience: .everybody, emits: .invalidates, get: { .string(AudienceTests.secret) }),
            ], signals: [Signal("Said", [Argument("what", "s")])])
        ], manager: Table.path)
    }

    func introspect(_ path: ObjectPath) async throws -> String {
      try await table.client.call(Table.name, path, AudienceTests.introspectable, "Introspect").first?.asString ?? ""
    }

    func close() {
      for object in [open, mixed, hidden] { object?.cancel() }
      table.close()
    }
  }

  /// Public properties and one restricted to the group, and their current values.
  @LoopActor
  private final class Values {
    var level: UInt32 = 7
    var secret = AudienceTests.secret

    var pair: [Property] {
      [
        Property("Level", "u", audience: .everybody, get: { .uint32(self.level) }),
        Property("Stale", "u", audience: .everybody, emits: .invalidates, get: { .uint32(8) }),
        Property("Secret", "s", get: { .string(self.secret) }),
      ]
    }
  }

  @Test("Properties and interfaces are readable only for the group unless they are declared for others")
  @LoopActor
  func defaults() {
    #expect(Property("P", "u", get: { .uint32(1) }).audience == .group)
    #expect(Interface("a.A").audience == .group)
  }

  @Test("A caller in the group can read everything", arguments: [true, false])
  @LoopActor
  func group(hasRule: Bool) async throws {
    let house = try await House(isOfGroup: true)
    defer { house.close() }
    if !hasRule { house.table.service.objects.access = nil }
    house.hide()
    let name = DBusValue.string(Table.interface)
    #expect(
      try await house.table.call("Get", [name, .string("Secret")], on: Self.properties) == [
        .variant(.string(Self.secret))
      ])
    let all = try await house.table.call("GetAll", [name], on: Self.properties)
    #expect(all.first?.asDictionary?.keys.sorted() == ["Level", "Secret", "Stale"])
    let objects = try await house.table.call("GetManagedObjects", on: Self.manager).first?.asDictionary ?? [:]
    #expect(objects.keys.sorted() == ["/org/example/hidden/peer1", "/org/example/mixed"])
    #expect(objects["/org/example/mixed"]?["a.Hidden"]?["Shown"] == .string(Self.secret))
    #expect(try await house.introspect(Table.path).contains("<node name=\"hidden\"/>"))
    #expect(try await house.introspect("/org/example/hidden").contains("<node name=\"peer1\"/>"))
    #expect(try await house.introspect("/org/example/hidden/peer1").contains("a.Peer"))
  }

  @Test("A caller outside the group gets `AccessDenied` for a group property, and the refusal is counted")
  @LoopActor
  func get() async throws {
    let house = try await House(isOfGroup: false)
    defer { house.close() }
    let sentence = "The property Secret is not public. \(Self.refusal)"
    for name in [Table.interface, ""] {
      let error = await house.table.error("Get", [.string(name), .string("Secret")], on: Self.properties)
      #expect(error == DBusError(.accessDenied, sentence))
    }
    let level = try await house.table.call("Get", [.string(Table.interface), .string("Level")], on: Self.properties)
    #expect(level == [.variant(.uint32(7))])
    #expect(house.table.refusals == [Tally("DeniedCalls", 2), Tally("RefusedCalls", 0)])
    #expect(await house.table.error("Do") == .denied(Self.refusal))
    let set: [DBusValue] = [.string(Table.interface), .string("Level"), .variant(.uint32(1))]
    #expect(await house.table.error("Set", set, on: Self.properties) == .denied(Self.refusal))
    #expect(house.table.refusals == [Tally("DeniedCalls", 4), Tally("RefusedCalls", 0)])
  }

  @Test("A caller that the bus does not know is treated as outside the group")
  @LoopActor
  func unknownCaller() async throws {
    let house = try await House(isOfGroup: true)
    defer { house.close() }
    var call = Message.call(
      Table.name, Table.path, Self.properties, "Get", [.string(Table.interface), .string("Secret")])
    (call.sender, call.serial) = (":1.9000", 1)
    let answer = Answer(to: call, over: try #require(house.table.service.answers))
    house.table.service.objects.receive(call, answer)
    #expect(!answer.isGiven)
    // The bus has answered the query about :1.9000 before it delivers this call.
    #expect(await house.table.error("Ping", on: "org.freedesktop.DBus.Peer") == nil)
    #expect(answer.isGiven)
    #expect(house.table.refusals == [Tally("DeniedCalls", 1), Tally("RefusedCalls", 0)])
  }

  @Test("Listings for a caller outside the group leave out the group's properties, interfaces and objects")
  @LoopActor
  func lists() async throws {
    let house = try await House(isOfGroup: false)
    defer { house.close() }
    house.hide()
    let shown = ["Level": DBusValue.uint32(7), "Stale": .uint32(8)]
    for name in [Table.interface, ""] {
      let all = try await house.table.call("GetAll", [.string(name)], on: Self.properties)
      #expect(all.first?.asDictionary == shown)
    }
    let objects = try await house.table.call("GetManagedObjects", on: Self.manager)
    #expect(objects.first?.asDictionary?.keys.sorted() == ["/org/example/mixed"])
    let interfaces = objects.first?["/org/example/mixed"]?.asDictionary ?? [:]
    #expect(interfaces.keys.sorted() == ["a.Open"] && interfaces["a.Open"]?.asDictionary == shown)
    #expect(!"\(objects)".contains(Self.secret))
    let whole = try await house.introspect(Table.path)
    #expect(whole.contains("<node name=\"mixed\"/>") && !whole.contains("hidden"))
    #expect(try await !house.introspect("/org/example/mixed").contains("a.Hidden"))
  }

  @Test("For a caller outside the group, an object or interface of the group does not exist")
  @LoopActor
  func indistinguishable() async throws {
    let house = try await House(isOfGroup: false)
    defer { house.close() }
    house.hide()
    func errors(_ path: ObjectPath, _ interface: String) async -> [String] {
      var errors: [String] = []
      for (method, arguments, on) in [
        ("Introspect", [], Self.introspectable), ("GetManagedObjects", [], Self.manager),
        ("Get", [.string(interface), .string("Name")], Self.properties),
        ("Get", [.string(interface), .string("Shown")], Self.properties),
        ("Get", [.string(""), .string("Shown")], Self.properties),
        ("GetAll", [.string(interface)], Self.properties), ("Do", [], interface), ("Undo", [], interface),
        ("Nonsense", [], "org.freedesktop.DBus.Peer"), ("Ping", [], "org.freedesktop.DBus.Peer"),
      ] as [(String, [DBusValue], String)] {
        let error = await house.table.error(method, arguments, on: on, at: path)
        errors.append("\(method): \(error.map(\.description) ?? "no error")")
      }
      return errors
    }
    func renamed(_ errors: [String], _ from: String, _ to: String) -> [String] {
      errors.map { $0.split(separator: " ").map { $0.hasPrefix(from) ? to + $0.dropFirst(from.count) : String($0) } }
        .map { $0.joined(separator: " ") }
    }
    for (path, other) in [
      ("/org/example/hidden/peer1", "/org/example/hidden/peer2"), ("/org/example/hidden", "/org/example/hiding"),
    ] as [(ObjectPath, ObjectPath)] {
      let (hidden, missing) = (await errors(path, "a.Peer"), await errors(other, "a.Peer"))
      #expect(renamed(hidden, path.string, other.string) == missing)
      #expect(hidden.first == "Introspect: \(DBusError.unknownObject("There is no object \(path.string)."))")
    }
    let (hidden, missing) = (
      await errors("/org/example/mixed", "a.Hidden"), await errors("/org/example/mixed", "a.Hiding")
    )
    #expect(renamed(hidden, "a.Hidden", "a.Hiding") == missing)
    #expect(hidden.contains { $0.contains("has no interface a.Hidden") })
  }

  @Test("No broadcast signal contains an object or property of the group")
  @LoopActor
  func signals() async throws {
    let house = try await House(isOfGroup: true)
    defer { house.close() }
    let heard = Mailbox<Message>()
    let subscriptions = [SignalMatch(), SignalMatch(sender: Table.name)].map { match in
      house.table.client.subscribe(match) { if $0.sender == house.table.service.uniqueName { heard.put($0) } }
    }
    defer { for subscription in subscriptions { subscription.cancel() } }
    _ = try await house.table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")

    house.hide()
    house.values.level = 9
    house.values.secret += " of today"
    house.hidden?.changed("Name", "Stale")
    house.hidden?.emit("a.Peer", "Said", [.string(Self.secret)])
    house.mixed.emit("a.Hidden", "Said", [.string(Self.secret)])
    house.mixed.changed("Shown")
    house.open.changed("Secret", "Level", "Stale")
    house.open.emit(Table.interface, "Done", [.string("work")])
    house.hidden?.cancel()
    let more = house.table.service.objects.export(
      "/org/example/more",
      interfaces: [
        Interface("a.Open", audience: .everybody, properties: house.values.pair), Interface("a.Hidden"),
      ], manager: Table.path)
    more.cancel()
    house.table.service.emit("/", "i.I", "End")

    let last = try await heard.first { $0.member == "End" }
    _ = try await heard.first { $0 == last }
    let all = heard.all.enumerated().filter { $0.offset.isMultiple(of: 2) }.map(\.element)
    #expect(all.map(\.member) == ["PropertiesChanged", "Done", "InterfacesAdded", "InterfacesRemoved", "End"])
    guard all.count == 5 else { return }
    #expect(
      all[0].arguments == [
        .string(Table.interface), .options(["Level": .uint32(9)]), .strings(["Secret", "Stale"]),
      ])
    #expect(all[2].arguments.first == .objectPath("/org/example/more"))
    #expect(all[2].arguments.last?.asDictionary?.keys.sorted() == ["a.Open"])
    #expect(
      all[2].arguments.last?["a.Open"]?.asDictionary == ["Level": .uint32(9), "Stale": .uint32(8)])
    #expect(all[3].arguments == [.objectPath("/org/example/more"), .strings(["a.Open"])])
    #expect(!"\(heard.all)".contains(Self.secret) && !"\(heard.all)".contains("hidden"))
  }

  @Test("A unicast signal of an object for the group reaches only its destination")
  @LoopActor
  func addressed() async throws {
    let house = try await House(isOfGroup: true)
    defer { house.close() }
    let stranger = BusConnection(address: .address(house.table.bus.address))
    stranger.connect()
    try await stranger.ready()
    defer { stranger.close() }
    let (meant, overheard) = (Mailbox<Message>(), Mailbox<Message>())
    let subscriptions = [
      house.table.client.subscribe(SignalMatch(sender: Table.name)) { meant.put($0) },
      stranger.subscribe(SignalMatch()) {
        if $0.sender == house.table.service.uniqueName { overheard.put($0) }
      },
    ]
    defer { for subscription in subscriptions { subscription.cancel() } }
    for connection in [house.table.client, stranger] {
      _ = try await connection.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")
    }
    house.hide()
    house.hidden?.emit("a.Peer", "Said", [.string(Self.secret)], to: house.table.client.uniqueName)
    house.table.service.emit("/", "i.I", "End")
    #expect(try await meant.next().arguments == [.string(Self.secret)])
    #expect(try await overheard.next().member == "End")
  }

  @Test("A program of another user reads only public data", .enabled(if: getuid() == 0, "only root can be two users"))
  @LoopActor
  func twoUsers() async throws {
    let house = try await House(isOfGroup: true)
    defer { house.close() }
    house.hide()
    func look(_ path: ObjectPath, _ words: String...) async throws -> String {
      try await dbusSend(
        house.table.bus, ["--print-reply", "--dest=\(Table.name)", path.string] + words,
        as: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    }
    let name = "string:\(Table.interface)"
    let refused = try await look(Table.path, "\(Self.properties).Get", name, "string:Secret")
    #expect(refused.contains("org.freedesktop.DBus.Error.AccessDenied: The property Secret is not public."))
    #expect(try await look(Table.path, "\(Self.properties).Get", name, "string:Level").contains("uint32 7"))
    let all = try await look(Table.path, "\(Self.properties).GetAll", name)
    #expect(all.contains("uint32 7") && !all.contains(Self.secret), "\(all)")
    let objects = try await look(Table.path, "\(Self.manager).GetManagedObjects")
    #expect(objects.contains("a.Open") && !objects.contains(Self.secret) && !objects.contains("peer1"), "\(objects)")
    let description = try await look(Table.path, "\(Self.introspectable).Introspect")
    #expect(description.contains("mixed") && !description.contains("hidden"), "\(description)")
    let hidden = try await look("/org/example/hidden/peer1", "\(Self.introspectable).Introspect")
    #expect(hidden.contains("UnknownObject"), "\(hidden)")
    // The query by this test's own user, for comparison.
    #expect(try await house.introspect("/org/example/hidden/peer1").contains("a.Peer"))
  }

  @Test("A D-Bus object manager lists only objects below its own path")
  @LoopActor
  func children() async throws {
    let house = try await House(isOfGroup: true)
    defer { house.close() }
    let added = Mailbox<ObjectPath?>()
    let subscription = house.table.client.subscribe(SignalMatch(sender: Table.name, interface: Self.manager)) {
      added.put($0.arguments.first?.asObjectPath)
    }
    defer { subscription.cancel() }
    _ = try await house.table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")
    let interface = Interface("a.More", audience: .everybody)
    let more = ["/org/example", "/org/example/more", "/org/examples", "/org"].compactMap { ObjectPath($0) }.map {
      house.table.service.objects.export($0, interfaces: [interface], manager: Table.path)
    }
    let listed = try await house.table.call("GetManagedObjects", on: Self.manager)
    #expect(listed.first?.asDictionary?.keys.sorted() == ["/org/example/mixed", "/org/example/more"])
    for object in more { object.cancel() }
    house.table.service.emit("/", Self.manager, "End", [.objectPath("/end")])
    _ = try await added.first { $0 == "/end" }
    #expect(added.all == ["/org/example/more", "/org/example/more", "/end"])
  }
}
