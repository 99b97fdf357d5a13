import Common
import Glibc
import Loop
import TestSupport
import Testing

@testable import DBus

@Suite("Signals about objects of the group")
struct WatchTests {
  init() { EventLoop.shared.runInBackground() }

  private static let peer: ObjectPath = "/org/example/peer1"

  /// A service with `Watch` and `Unwatch`, and a restricted object whose value can be set.
  @LoopActor
  private final class House {
    let table: Table
    private let manager: ExportedObject
    private(set) var peer: ExportedObject?
    var level: UInt32 = 1
    let heard = Mailbox<Message>()
    private var registrations: [Registration] = []

    /// - Parameter isOfGroup: whether this test's user counts as a member of the group.
    init(isOfGroup: Bool = true, limits: BusLimits = BusLimits()) async throws {
      let table = try await Table(limits: limits)
      self.table = table
      let objects = table.service.objects
      objects.access = AccessRule(refusal: "Only friends may do this.") { ($0.uid == getuid()) == isOfGroup }
      objects.exportManager(Table.path)
      manager = objects.export(
        Table.path,
        interfaces: [
          Interface(
            Table.interface, audience: .everybody,
            methods: [
              Method(
                "Watch",
                returning: { [weak objects] call throws(DBusError) in
                  try objects?.watch(call)
                  return []
                }),
              Method(
                "Unwatch",
                returning: { [weak objects] call throws(DBusError) in
                  objects?.unwatch(call)
                  return []
                }),
            ], signals: [Signal("End")])
        ])
      hear(table.client)
      _ = try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")
    }

    private func hear(_ connection: BusConnection) {
      registrations.append(
        connection.subscribe(SignalMatch()) { [weak self] in
          if $0.sender == self?.table.service.uniqueName { self?.heard.put($0) }
        })
    }

    func show() {
      peer = table.service.objects.export(
        WatchTests.peer,
        interfaces: [
          Interface(
            "a.Peer",
            properties: [
              Property("Level", "u", get: { [weak self] in .uint32(self?.level ?? 0) }),
              Property("Strength", "n", emits: .none, get: { .int16(1) }),
            ], signals: [Signal("Said", [Argument("what", "s")])])
        ], manager: Table.path)
    }

    func set(_ level: UInt32) {
      self.level = level
      peer?.changed("Level")
    }

    func hide() {
      peer?.cancel()
      peer = nil
    }

    /// The signals that were received before a broadcast signal that marks the end.
    func all() async throws -> [String] {
      // Changes are signalled at the end of the loop iteration: the answer to a later call follows them.
      _ = try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")
      table.service.emit("/", "i.I", "End")
      _ = try await heard.first { $0.member == "End" }
      let messages = heard.all
      return messages.filter { $0.member != "End" }.map { "\($0.member ?? "") \($0.path?.string ?? "")" }
    }

    func close() {
      for registration in registrations { registration.cancel() }
      hide()
      manager.cancel()
      table.close()
    }
  }

  @Test("Only a watching program receives signals about D-Bus objects that only the group may see")
  @LoopActor
  func watched() async throws {
    let house = try await House()
    defer { house.close() }
    let other = BusConnection(address: .address(house.table.bus.address))
    other.connect()
    try await other.ready()
    defer { other.close() }
    let overheard = Mailbox<Message>()
    let subscription = other.subscribe(SignalMatch()) {
      if $0.sender == house.table.service.uniqueName { overheard.put($0) }
    }
    defer { subscription.cancel() }
    _ = try await other.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping")

    _ = try await house.table.call("Watch")
    house.show()
    house.set(2)
    house.peer?.emit("a.Peer", "Said", [.string("hello")])
    house.set(2)
    house.hide()
    let path = Self.peer.string
    #expect(
      try await house.all() == [
        "InterfacesAdded /org/example", "PropertiesChanged \(path)", "Said \(path)", "InterfacesRemoved /org/example",
      ])
    let messages = house.heard.all
    #expect(messages.first?.arguments.last?["a.Peer"]?["Level"] == .uint32(1))
    #expect(
      messages.dropFirst().first?.arguments
        == [.string("a.Peer"), .options(["Level": .uint32(2)]), .strings([])])
    #expect(messages.filter { $0.member != "End" }.allSatisfy { $0.destination == house.table.client.uniqueName })
    #expect(try await overheard.next().member == "End")
  }

  @Test("A change of a group's D-Bus object is not signalled later if no program was watching")
  @LoopActor
  func unwatched() async throws {
    let house = try await House()
    defer { house.close() }
    house.show()
    house.set(2)
    #expect(try await house.all() == [])
    _ = try await house.table.call("Watch")
    house.set(3)
    house.set(2)
    #expect(try await house.all() == [])
    // The value has changed since the export, and the watcher receives the new value.
    house.set(1)
    #expect(try await house.all() == ["PropertiesChanged \(Self.peer.string)"])
    _ = try await house.table.call("Unwatch")
    house.set(4)
    house.hide()
    #expect(try await house.all() == ["PropertiesChanged \(Self.peer.string)"])
  }

  @Test("A caller outside the group may not watch, and a closed connection frees its watcher slot")
  @LoopActor
  func bounds() async throws {
    let strangers = try await House(isOfGroup: false)
    #expect(await strangers.table.error("Watch")?.is(.denied) == true)
    strangers.close()

    var limits = BusLimits()
    limits.watchersOfUser = 2
    let house = try await House(limits: limits)
    defer { house.close() }
    func connection() async throws -> BusConnection {
      let connection = BusConnection(address: .address(house.table.bus.address))
      connection.connect()
      try await connection.ready()
      return connection
    }
    func watch(_ connection: BusConnection) async -> DBusError? {
      await caught(DBusError.self) { _ = try await connection.call(Table.name, Table.path, Table.interface, "Watch") }
    }
    let (first, second) = (try await connection(), try await connection())
    defer { second.close() }
    #expect(await watch(first) == nil)
    #expect(await watch(first) == nil)
    #expect(await watch(second) == nil)
    #expect(await watch(house.table.client)?.is(.limitExceeded) == true)
    #expect(house.table.service.objects.tallies.last == Tally("RefusedWatchers", 1))
    first.close()
    while await watch(house.table.client) != nil {
      _ = try await house.table.call("Ping", on: "org.freedesktop.DBus.Peer")
    }
  }

  @Test("Introspection marks a property as invalidated only if its change signal has no value")
  @LoopActor
  func annotations() {
    func xml(_ interface: Audience, _ property: Audience, _ emits: Property.Emits) -> String {
      let property = Property("P", "u", audience: property, emits: emits, get: { .uint32(1) })
      return InterfaceXML.render(Interface("a.A", audience: interface, properties: [property]))
    }
    func value(_ xml: String) -> String? {
      let line = xml.split(separator: "\n").first { $0.contains("EmitsChangedSignal") }
      return line?.split(separator: "\"").dropLast().last.map(String.init)
    }
    #expect(value(xml(.everybody, .group, .changes)) == "invalidates")
    #expect(value(xml(.everybody, .everybody, .changes)) == nil)
    #expect(value(xml(.group, .group, .changes)) == nil)
    for emits in [Property.Emits.const, .none, .invalidates] {
      #expect(value(xml(.everybody, .group, emits)) == emits.rawValue)
    }
  }
}
