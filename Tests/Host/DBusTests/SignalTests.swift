import DBus
import Loop
import TestSupport
import Testing

/// Signals, and the check of their senders.
struct SignalTests {
  init() { EventLoop.shared.runInBackground() }

  /// Waits until the bus has all match rules of a connection.
  @LoopActor
  private func settle(_ connection: BusConnection) async throws {
    _ = try await connection.call("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId")
  }

  @Test("A subscription receives only the signals that match each part of its rule")
  @LoopActor
  func matching() async throws {
    let table = try await Table()
    defer { table.close() }
    let matches: [(String, SignalMatch)] = [
      ("any", SignalMatch(sender: Table.name)),
      ("path", SignalMatch(path: "/a/b")),
      ("namespace", SignalMatch(pathNamespace: "/a")),
      ("interface", SignalMatch(interface: "i.I")),
      ("member", SignalMatch(member: "M")),
      ("arg0", SignalMatch(arg0: "it's, 'quoted'")),
      ("nobody", SignalMatch(sender: "org.example.Nobody")),
      ("client", SignalMatch(sender: table.client.uniqueName)),
      ("invalid", SignalMatch(interface: "not an interface")),
    ]
    var got: [String: [String]] = [:]
    let end = Mailbox<Void>()
    var registrations = matches.map { label, match in
      table.client.subscribe(match) { got[label, default: []].append($0.arguments.last?.asString ?? "") }
    }
    registrations.append(table.client.subscribe(SignalMatch(member: "End")) { _ in end.put(()) })
    try await settle(table.client)
    let service = table.service
    service.emit("/a/b", "i.I", "M", [.string("1")])
    service.emit("/a", "i.J", "N", [.string("2")])
    service.emit("/ab", "i.J", "N", [.string("it's, 'quoted'"), .string("3")])
    service.emit("/a/b/c", "i.J", "N", [.variant(.string("it's, 'quoted'")), .string("4")])
    service.emit("/", "i.J", "End", [.string("5")])
    try await end.next()
    #expect(
      got == [
        "any": ["1", "2", "3", "4", "5"], "path": ["1"], "namespace": ["1", "2", "4"], "interface": ["1"],
        "member": ["1"], "arg0": ["3"],
      ])
    for registration in registrations { registration.cancel() }
  }

  @Test("A cancelled subscription receives no signals, and an equal second one continues")
  @LoopActor
  func cancelling() async throws {
    let table = try await Table()
    defer { table.close() }
    let mailbox = Mailbox<String>()
    let match = SignalMatch(sender: Table.name, interface: "i.I")
    let first = table.client.subscribe(match) { _ in mailbox.put("first") }
    let second = table.client.subscribe(match) { _ in
      mailbox.put("second")
      first.cancel()
    }
    try await settle(table.client)
    table.service.emit("/", "i.I", "M")
    table.service.emit("/", "i.I", "M")
    #expect(try await [mailbox.next(), mailbox.next(), mailbox.next()] == ["first", "second", "second"])
    second.cancel()
    table.service.emit("/", "i.I", "M")
    let third = table.client.subscribe(match) { _ in mailbox.put("third") }
    try await settle(table.client)
    table.service.emit("/", "i.I", "M")
    #expect(try await mailbox.next() == "third")
    third.cancel()
  }

  @Test("A subscription to a path namespace continues when another one to the same namespace ends")
  @LoopActor
  func namespaces() async throws {
    let table = try await Table()
    defer { table.close() }
    var got: [String] = []
    let end = Mailbox<Void>()
    let first = table.client.subscribe(SignalMatch(sender: Table.name, pathNamespace: "/a")) { _ in got.append("first")
    }
    let others = [
      table.client.subscribe(SignalMatch(sender: Table.name, pathNamespace: "/b")) { _ in got.append("second") },
      table.client.subscribe(SignalMatch(sender: Table.name, member: "End")) { _ in end.put(()) },
    ]
    first.cancel()
    try await settle(table.client)
    for path: ObjectPath in ["/a/c", "/b/c"] { table.service.emit(path, "i.I", "M") }
    table.service.emit("/", "i.I", "End")
    try await end.next()
    #expect(got == ["second"])
    for registration in others { registration.cancel() }
  }

  @Test("A signal from a connection that does not own the subscribed name is ignored")
  @LoopActor
  func forgery() async throws {
    let table = try await Table()
    defer { table.close() }
    let forger = BusConnection(address: .address(table.bus.address))
    forger.connect()
    try await forger.ready()
    let mailbox = Mailbox<String?>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name, member: "M")) { mailbox.put($0.sender) }
    // The second subscription makes the bus deliver the forged signal to the same connection.
    let any = table.client.subscribe(SignalMatch(member: "M")) { _ in }
    try await settle(table.client)
    forger.emit(Table.path, Table.interface, "M")
    try await settle(forger)
    table.service.emit(Table.path, Table.interface, "M")
    #expect(try await mailbox.next() == table.service.uniqueName)
    for registration in [subscription, any] { registration.cancel() }
    forger.close()
  }

  @Test("A subscription to a bus name continues with the name's next owner")
  @LoopActor
  func following() async throws {
    let table = try await Table()
    defer { table.close() }
    let mailbox = Mailbox<String?>()
    let owners = Mailbox<String?>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name, member: "M")) { mailbox.put($0.sender) }
    let watch = table.client.watchName(Table.name) { owners.put($0) }
    #expect(try await owners.next() == table.service.uniqueName)
    table.service.close()
    #expect(try await owners.next() == nil)
    let heir = BusConnection(address: .address(table.bus.address))
    heir.connect(name: Table.name)
    try await heir.ready()
    #expect(try await owners.next() == heir.uniqueName)
    heir.emit("/", "i.I", "M")
    #expect(try await mailbox.next() == heir.uniqueName)
    subscription.cancel()
    watch.cancel()
    heir.close()
  }

  @Test("A process does not receive the signals that it sends itself")
  @LoopActor
  func ownSignals() async throws {
    let table = try await Table()
    defer { table.close() }
    let mailbox = Mailbox<String?>()
    let subscription = table.client.subscribe(SignalMatch(member: "M")) { mailbox.put($0.sender) }
    try await settle(table.client)
    table.client.emit("/", "i.I", "M")
    try await settle(table.client)
    table.service.emit("/", "i.I", "M")
    #expect(try await mailbox.next() == table.service.uniqueName)
    subscription.cancel()
  }

  @Test("A unicast D-Bus signal reaches only its destination")
  @LoopActor
  func addressed() async throws {
    let table = try await Table()
    defer { table.close() }
    let stranger = BusConnection(address: .address(table.bus.address))
    stranger.connect()
    try await stranger.ready()
    defer { stranger.close() }
    let (meant, overheard) = (Mailbox<[DBusValue]>(), Mailbox<[DBusValue]>())
    var subscriptions = [table.client.subscribe(SignalMatch(member: "M")) { meant.put($0.arguments) }]
    for match in [
      SignalMatch(), SignalMatch(member: "M"), SignalMatch(sender: Table.name), SignalMatch(path: Table.path),
      SignalMatch(sender: table.service.uniqueName, interface: Table.interface),
    ] {
      subscriptions.append(
        stranger.subscribe(match) {
          // The bus itself announces to all connections which names appear and vanish.
          if $0.sender != "org.freedesktop.DBus" { overheard.put($0.arguments) }
        })
    }
    try await settle(table.client)
    try await settle(stranger)
    let secret = [DBusValue.bytes(Array("secret".utf8))]
    table.service.emit(Table.path, Table.interface, "M", secret, to: table.client.uniqueName)
    table.service.emit(Table.path, Table.interface, "M", secret, to: "not a name")
    table.service.emit(Table.path, Table.interface, "M", [.string("public")])
    #expect(try await meant.next() == secret)
    #expect(try await meant.next() == [.string("public")])
    // The bus keeps the order: a delivered first message would precede the last one.
    for _ in 0..<5 { #expect(try await overheard.next() == [.string("public")]) }
    #expect(overheard.all.count == 5)
    for subscription in subscriptions { subscription.cancel() }
  }

  @Test("A burst of signals is handled completely and in order, and other work runs in between")
  @LoopActor
  func burst() async throws {
    let table = try await Table()
    defer { table.close() }
    let mailbox = Mailbox<UInt32>()
    let subscription = table.client.subscribe(SignalMatch(sender: Table.name, member: "M")) {
      mailbox.put($0.arguments[0].asUInt32 ?? 0)
    }
    try await settle(table.client)
    let numbers = (0..<5000).map { UInt32($0) }
    for number in numbers { table.service.emit("/", "i.I", "M", [.uint32(number)]) }
    _ = try await mailbox.first { $0 == 4999 }
    #expect(mailbox.all == numbers)
    subscription.cancel()
  }
}
