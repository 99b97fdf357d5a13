import DBus
import Loop
import TestSupport
import Testing

/// Connections that open, close and reconnect.
struct ConnectionTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("After a restart of the bus a connection has its name, objects and subscriptions again")
  @LoopActor
  func restart() async throws {
    let table = try await Table()
    defer { table.close() }
    var kept: [MethodCall] = []
    let object = table.export(
      Interface(Table.interface, methods: [Method("Wait", handler: { kept.append($0) }), echo("Echo", "s")]))
    let signals = Mailbox<UInt32>()
    let owners = Mailbox<String?>()
    let states = Mailbox<BusState>()
    let failures = Mailbox<DBusError?>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name, member: "M")) {
      signals.put($0.arguments[0].asUInt32 ?? 0)
    }
    let watch = table.client.watchName(Table.name) { owners.put($0) }
    #expect(try await owners.next() != nil)
    let state = table.service.onState { states.put($0) }
    table.client.call(Table.name, Table.path, Table.interface, "Wait") { result in
      if case .failure(let error) = result { failures.put(error) } else { failures.put(nil) }
    }
    #expect(try await table.call("Echo", [.string("a")]) == [.string("a")])
    #expect(kept.count == 1)

    table.bus.kill()
    #expect(try await failures.next()?.is(.disconnected) == true)
    #expect(try await owners.next() == nil)
    guard case .lost = try await states.next() else { throw DBusError.failed("not lost") }
    #expect(await table.error("Echo", [.string("b")])?.is(.disconnected) == true)

    try table.bus.start()
    _ = try await states.first { if case .connected = $0 { true } else { false } }
    #expect(try await owners.next() == table.service.uniqueName)
    // The reply to a call of the previous bus is dropped.
    kept.removeFirst().reply()
    #expect(try await table.call("Echo", [.string("c")]) == [.string("c")])
    table.service.emit("/", "i.I", "M", [.uint32(1)])
    #expect(try await signals.next() == 1)
    for registration in [subscription, watch, state] { registration.cancel() }
    object.cancel()
  }

  @Test("With `hearsEachBus` a name watcher is notified at each new bus that the name has no owner")
  @LoopActor
  func nobodyAgain() async throws {
    let bus = try PrivateBus()
    defer { bus.stop() }
    let connection = BusConnection(address: .address(bus.address))
    defer { connection.close() }
    let owners = Mailbox<String?>()
    var told = 0
    let watches = [
      connection.watchName("org.example.Nobody") { _ in told += 1 },
      connection.watchName("org.example.Nobody", hearsEachBus: true) { owners.put($0) },
    ]
    connection.connect()
    #expect(try await owners.next() == nil)
    bus.kill()
    try bus.start()
    #expect(try await owners.next() == nil)
    #expect(told == 1)
    for watch in watches { watch.cancel() }
  }

  @Test("A connection to a bus that does not run is established when the bus starts")
  @LoopActor
  func lateBus() async throws {
    let bus = try PrivateBus()
    defer { bus.stop() }
    bus.kill()
    let connection = BusConnection(address: .address(bus.address))
    let states = Mailbox<BusState>()
    let registration = connection.onState { states.put($0) }
    #expect(connection.state == .connecting)
    connection.connect()
    await #expect(throws: DBusError.self) { try await connection.ready() }
    try bus.start()
    _ = try await states.first { if case .connected = $0 { true } else { false } }
    #expect(connection.uniqueName != nil)
    connection.close()
    #expect(connection.state == .closed && connection.uniqueName == nil)
    registration.cancel()
  }

  @Test("A bus name owned by another program is reported as busy, and acquired when it is free")
  @LoopActor
  func takenName() async throws {
    let table = try await Table()
    defer { table.close() }
    let second = BusConnection(address: .address(table.bus.address))
    let states = Mailbox<BusState>()
    let registration = second.onState { states.put($0) }
    second.connect(name: Table.name)
    guard case .nameUnavailable(let error) = try await states.first(where: { $0 != .connecting }) else {
      throw DBusError.failed("not refused")
    }
    #expect(error.is(.busy))
    await #expect(throws: error) { try await second.ready() }
    // The second connection can make calls although it does not own the name.
    #expect(try await second.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping").isEmpty)
    table.service.close()
    #expect(try await states.next() == .connected(uniqueName: try #require(second.uniqueName)))
    second.close()
    registration.cancel()
  }

  private static let denial = "<policy context=\"mandatory\"><deny own=\"org.example.Service\"/></policy>"

  @Test("A bus name that the policy denies is requested again, and acquired when the policy allows it")
  @LoopActor
  func allowedName() async throws {
    let bus = try PrivateBus(configuration: Self.denial)
    defer { bus.stop() }
    let connection = BusConnection(address: .address(bus.address))
    let states = Mailbox<BusState>()
    let registration = connection.onState { states.put($0) }
    connection.connect(name: Table.name)
    _ = try await states.first { if case .nameUnavailable = $0 { true } else { false } }
    try bus.configure("")
    _ = try await connection.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus", "ReloadConfig")
    #expect(try await states.next() == .connected(uniqueName: try #require(connection.uniqueName)))
    connection.close()
    registration.cancel()
  }

  @Test("A denied or invalid bus name is reported once with the error of the bus")
  @LoopActor
  func deniedName() async throws {
    let bus = try PrivateBus(configuration: Self.denial)
    defer { bus.stop() }
    for name in [Table.name, "not a name", ":1.1"] {
      let connection = BusConnection(address: .address(bus.address))
      let states = Mailbox<BusState>()
      let registration = connection.onState { states.put($0) }
      connection.connect(name: name)
      guard case .nameUnavailable(let error) = try await states.first(where: { $0 != .connecting }) else {
        throw DBusError.failed("not refused")
      }
      #expect(!error.is(.busy))
      #expect(try await connection.call("org.freedesktop.DBus", "/", "org.freedesktop.DBus.Peer", "Ping").isEmpty)
      #expect(states.all.count == 1)
      connection.close()
      registration.cancel()
    }
  }

  @Test("Closing a connection fails its pending calls, and the connection can be opened again")
  @LoopActor
  func closing() async throws {
    let table = try await Table()
    defer { table.close() }
    let failures = Mailbox<DBusError?>()
    table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping") { result in
      if case .failure(let error) = result { failures.put(error) } else { failures.put(nil) }
    }
    table.client.close()
    table.client.close()
    #expect(try await failures.next()?.is(.disconnected) == true)
    #expect(await table.error("Echo")?.is(.disconnected) == true)
    table.client.connect()
    try await table.client.ready()
    #expect(try await table.client.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping").isEmpty)
  }

  @Test("A connection object that is dropped disconnects from the bus")
  @LoopActor
  func dropping() async throws {
    let table = try await Table()
    defer { table.close() }
    var connection: BusConnection? = BusConnection(address: .address(table.bus.address))
    connection?.connect(name: "org.example.Other")
    try await connection?.ready()
    let owners = Mailbox<String?>()
    let watch = table.client.watchName("org.example.Other") { owners.put($0) }
    #expect(try await owners.next() != nil)
    connection = nil
    #expect(try await owners.next() == nil)
    watch.cancel()
  }

  @Test(
    "An invalid bus address gives an error of the connection",
    arguments: ["", "unix:path=/nowhere/bus", "x\0y", "nonsense"])
  @LoopActor
  func badAddress(_ address: String) async throws {
    let connection = BusConnection(address: .address(address))
    connection.connect()
    await #expect(throws: DBusError.self) { try await connection.ready() }
    connection.close()
  }

  @Test("If the bus does not read, messages above the limit of queued bytes are refused")
  @LoopActor
  func outgoingLimit() async throws {
    var limits = BusLimits()
    limits.outgoing = 1 << 20
    let table = try await Table(limits: limits)
    defer { table.close() }
    // In one loop iteration the test first sends more than the socket accepts, and then more than the limit of queued
    // bytes.
    let bytes = DBusValue.bytes([UInt8](repeating: 1, count: 1 << 20))
    let results = Mailbox<DBusError?>()
    for _ in 0..<8 {
      table.service.call(table.client.uniqueName ?? "", "/", "a.b", "M", [bytes]) { result in
        if case .failure(let error) = result { results.put(error) } else { results.put(nil) }
      }
    }
    #expect(try await results.first { $0?.is(.limitExceeded) == true } != nil)
    _ = try await results.first { $0?.is(.unknownInterface) == true }
    #expect(try await table.service.call(Table.name, "/", "org.freedesktop.DBus.Peer", "Ping").isEmpty)
  }
}
