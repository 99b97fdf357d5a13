import Glibc
import Loop
import TestSupport
import Testing

@testable import DBus

/// Method calls with replies, refusals, late replies and lost replies.
struct CallTests {
  init() { EventLoop.shared.runInBackground() }

  @Test("Calls of unknown objects, interfaces, methods and properties get the standard D-Bus errors")
  @LoopActor
  func unknown() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(
      Interface(
        Table.interface, methods: [echo("Echo", "s")], properties: [Property("Level", "u", get: { .uint32(1) })]))
    let properties = "org.freedesktop.DBus.Properties"
    #expect(await table.error("Echo", at: "/org/other")?.is(.unknownObject) == true)
    #expect(await table.error("Echo", at: "/org/example/below")?.is(.unknownObject) == true)
    #expect(await table.error("Echo", at: "/org")?.is(.unknownInterface) == true)
    #expect(await table.error("Echo", on: "org.example.Other")?.is(.unknownInterface) == true)
    #expect(await table.error("Nothing")?.is(.unknownMethod) == true)
    #expect(
      await table.error("Get", [.string(Table.interface), .string("No")], on: properties)?.is(.unknownProperty) == true)
    #expect(await table.error("Get", [.string("a.b"), .string("No")], on: properties)?.is(.unknownInterface) == true)
    #expect(await table.error("GetAll", [.string("a.b")], on: properties)?.is(.unknownInterface) == true)
    #expect(await table.error("GetAll", [.string("")], on: properties, at: "/org")?.is(.unknownInterface) == true)
    await #expect(throws: DBusError.self) { try await table.client.call("org.example.Nobody", "/", "a.b", "M") }
    object.cancel()
  }

  @Test("Arguments of wrong types are refused with a sentence before the method handler runs")
  @LoopActor
  func wrongArguments() async throws {
    let table = try await Table()
    defer { table.close() }
    var calls = 0
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Set", in: [Argument("name", "s"), Argument("level", "u")],
            handler: { call in
              calls += 1
              call.reply()
            })
        ]))
    let wrong: [([DBusValue], String)] = [
      ([], "none"), ([.string("a")], "s"), ([.string("a"), .int32(1)], "si"),
      ([.string("a"), .uint32(1), .byte(1)], "suy"),
    ]
    for (arguments, given) in wrong {
      #expect(
        await table.error("Set", arguments) == .invalidArgs("Set takes name (s), level (u), but was given \(given)."))
    }
    #expect(calls == 0)
    #expect(try await table.call("Set", [.string("a"), .uint32(1)]).isEmpty)
    #expect(calls == 1)
    object.cancel()
  }

  @Test("A method may answer a call after it has answered later calls")
  @LoopActor
  func laterReply() async throws {
    let table = try await Table()
    defer { table.close() }
    var kept: MethodCall?
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method("Wait", out: [Argument("text", "s")], handler: { kept = $0 }),
          Method(
            "Release",
            handler: { call in
              call.reply()
              kept?.reply(.string("at last"))
              kept?.reply(.string("twice"))
              kept = nil
            }),
        ]))
    let answers = Mailbox<String>()
    table.client.call(Table.name, Table.path, Table.interface, "Wait") { _ in answers.put("Wait") }
    table.client.call(Table.name, Table.path, Table.interface, "Release") { _ in answers.put("Release") }
    #expect(try await [answers.next(), answers.next()] == ["Release", "Wait"])
    object.cancel()
  }

  @Test("A method call that is dropped without an answer gets an error, on any thread")
  @LoopActor
  func dropped() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method("Drop", handler: { _ in }),
          Method("Carry", handler: { call in Task.detached { _ = call } }),
        ]))
    #expect(await table.error("Drop")?.is(.failed) == true)
    #expect(await table.error("Carry")?.is(.failed) == true)
    object.cancel()
  }

  @Test("A D-Bus call without an answer fails with `Timeout`, and a late answer is ignored")
  @LoopActor
  func timeout() async throws {
    let table = try await Table()
    defer { table.close() }
    var kept: MethodCall?
    let object = table.export(
      Interface(Table.interface, methods: [Method("Wait", handler: { kept = $0 }), echo("Echo", "s")]))
    let results = Mailbox<DBusError?>()
    table.client.call(Table.name, Table.path, Table.interface, "Wait", timeout: .milliseconds(30)) { result in
      if case .failure(let error) = result { results.put(error) } else { results.put(nil) }
    }
    #expect(try await results.next()?.is(.timeout) == true)
    // The call itself arrived before this one.
    #expect(try await table.call("Echo", [.string("a")]) == [.string("a")])
    kept?.reply()
    #expect(try await table.call("Echo", [.string("b")]) == [.string("b")])
    #expect(results.all.count == 1)
    object.cancel()
  }

  @Test("A pending D-Bus call fails at once if the called program disconnects")
  @LoopActor
  func calleeVanishes() async throws {
    let table = try await Table()
    defer { table.close() }
    let arrived = Mailbox<MethodCall>()
    let object = table.export(Interface(Table.interface, methods: [Method("Wait", handler: { arrived.put($0) })]))
    let results = Mailbox<DBusError?>()
    table.client.call(Table.name, Table.path, Table.interface, "Wait") { result in
      if case .failure(let error) = result { results.put(error) } else { results.put(nil) }
    }
    _ = try await arrived.next()
    table.service.close()
    #expect(try await results.next()?.is(.noReply) == true)
    #expect(await table.error("Wait")?.is(.serviceUnknown) == true)
    object.cancel()
  }

  @Test("Calls of one program are handled and answered in order")
  @LoopActor
  func order() async throws {
    let table = try await Table()
    defer { table.close() }
    let other = BusConnection(address: .address(table.bus.address))
    other.connect()
    try await other.ready()
    var seen: [String: [UInt32]] = [:]
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Count", in: [Argument("number", "u")], out: [Argument("number", "u")],
            handler: { call in
              seen[call.sender, default: []].append(call.arguments[0].asUInt32 ?? 0)
              call.reply(call.arguments)
            })
        ]))
    let answers = [Mailbox<UInt32>(), Mailbox<UInt32>()]
    let numbers = (0..<100).map { UInt32($0) }
    for number in numbers {
      for (connection, mailbox) in zip([table.client, other], answers) {
        connection.call(Table.name, Table.path, Table.interface, "Count", [.uint32(number)]) { result in
          mailbox.put((try? result.get())?.first?.asUInt32 ?? .max)
        }
      }
    }
    for mailbox in answers { _ = try await mailbox.first { $0 == 99 } }
    #expect(answers.allSatisfy { $0.all == numbers })
    #expect(seen.count == 2 && seen.values.allSatisfy { $0 == numbers })
    other.close()
    object.cancel()
  }

  @Test("A connection with too many pending calls refuses further calls")
  @LoopActor
  func pendingLimit() async throws {
    let table = try await Table()
    defer { table.close() }
    var limits = BusLimits()
    limits.pendingCalls = 2
    let client = BusConnection(address: .address(table.bus.address), limits: limits)
    client.connect()
    try await client.ready()
    let results = Mailbox<DBusError?>()
    for _ in 0..<3 {
      client.call(Table.name, Table.path, "org.freedesktop.DBus.Peer", "Ping") { result in
        if case .failure(let error) = result { results.put(error) } else { results.put(nil) }
      }
    }
    #expect(try await results.next()?.is(.limitExceeded) == true)
    #expect(try await [results.next(), results.next()] == [nil, nil])
    client.close()
  }

  @Test("A caller's credentials are read from the bus, and an unknown caller is an error")
  @LoopActor
  func credentials() async throws {
    let table = try await Table()
    defer { table.close() }
    let results = Mailbox<Result<Credentials, DBusError>>()
    let sender = try #require(table.client.uniqueName)
    for _ in 0..<2 { table.service.credentials(of: sender) { results.put($0) } }
    let first = try await results.next().get()
    #expect(first.uid == getuid() && first.pid == UInt32(getpid()) && first.gids.contains(getgid()))
    #expect(try await results.next().get() == first)
    table.service.credentials(of: sender) { results.put($0) }
    #expect(try await results.next().get() == first)
    // When the owner of the name disconnects, its cached credentials are dropped.
    let watched = Mailbox<String?>()
    let watch = table.service.watchName(sender) { watched.put($0) }
    #expect(try await watched.next() == sender)
    table.client.close()
    #expect(try await watched.next() == nil)
    table.service.credentials(of: sender) { results.put($0) }
    let gone = try await results.next()
    #expect(throws: DBusError.self) { _ = try gone.get() }
    watch.cancel()
  }

  @Test("A call that is flagged as wanting no reply gets no reply")
  @LoopActor
  func noReply() async throws {
    let table = try await Table()
    defer { table.close() }
    let came = Mailbox<Bool>()
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Say", in: [Argument("text", "s")],
            handler: { call in
              call.reply()
              came.put(call.isAnswered)
            })
        ]))
    try await dbusSend(
      table.bus, ["--type=method_call", "--dest=\(Table.name)", "/org/example", "\(Table.interface).Say", "string:x"])
    #expect(try await came.next())
    object.cancel()
  }

  /// An object whose method returns a text as a file, and counts how often the bus accepted one.
  @LoopActor
  final class Giver {
    var text = ""
    private(set) var taken = 0
    private(set) var refusal: DBusError?
    let came = Mailbox<Bool>()
    let gone = Mailbox<Int>()

    var interface: DBus.Interface {
      Interface(
        Table.interface,
        methods: [Method("Give", out: [Argument("text", "s")], handler: { self.give($0) })])
    }

    func give(_ call: MethodCall) {
      do throws(DBusError) {
        try call.handOver([.string(text)], taken: { self.countOne() })
      } catch {
        refusal = error
        call.fail(.busy("It stays here."))
      }
      came.put(call.isAnswered)
    }

    private func countOne() {
      taken += 1
      gone.put(taken)
    }
  }

  @Test("A credential text in a reply counts as delivered when the bus has read it, for 1 byte and for 8 MiB")
  @LoopActor
  func handedOver() async throws {
    let table = try await Table()
    defer { table.close() }
    let giver = Giver()
    let object = table.export(giver.interface)
    for (number, count) in [1, 8 << 20].enumerated() {
      giver.text = String(repeating: "x", count: count)
      #expect(try await table.call("Give") == [.string(giver.text)])
      #expect(try await giver.gone.next() == number + 1)
    }
    object.cancel()
  }

  @Test("A reply text is not delivered if the caller wants no reply, the text is too long, or the bus is gone")
  @LoopActor
  func notHandedOver() async throws {
    var limits = BusLimits()
    limits.sentMessage = 1000
    let table = try await Table(limits: limits)
    defer { table.close() }
    let giver = Giver()
    let object = table.export(giver.interface)
    giver.text = "x"
    var message = Message.call(Table.name, Table.path, Table.interface, "Give", [])
    message.expectsReply = false
    _ = try table.client.transport?.send(message)
    #expect(try await giver.came.next())
    giver.text = String(repeating: "x", count: 1000)
    // After the failed hand-over the method returns an error itself, because the call was not answered.
    #expect(await table.error("Give") == .busy("It stays here."))
    #expect(giver.refusal?.is(.limitExceeded) == true)
    #expect(try await giver.came.next())
    #expect(giver.taken == 0)
    object.cancel()
  }

  @Test("A reply text does not count as delivered if the caller has disconnected")
  @LoopActor
  func handedToNobody() async throws {
    let table = try await Table()
    defer { table.close() }
    let giver = Giver()
    giver.text = "x"
    let asked = Mailbox<MethodCall>()
    let object = table.export(
      Interface(
        Table.interface, methods: [Method("Give", out: [Argument("text", "s")], handler: { asked.put($0) })]))
    table.client.call(Table.name, Table.path, Table.interface, "Give", then: { _ in })
    let call = try await asked.next()
    let left = Mailbox<Bool>()
    let watch = table.service.watchName(try #require(table.client.uniqueName)) { if $0 == nil { left.put(true) } }
    table.client.close()
    #expect(try await left.next())
    giver.give(call)
    #expect(try await giver.came.next())
    // The bus answers in order: its reply to this call follows its reply about the caller.
    #expect(await table.service.hasOwner(Table.name))
    #expect(await !table.service.hasOwner("a.Nobody"))
    #expect(giver.taken == 0)
    watch.cancel()
    object.cancel()
  }

  @Test("A reply text does not count as delivered if the bus policy rejects the reply")
  @LoopActor
  func handedToWhoMayNotHaveIt() async throws {
    let table = try await Table(
      configuration: """
        <policy context="mandatory">
          <deny receive_type="method_return" receive_sender="\(Table.name)" receive_requested_reply="true"/>
        </policy>
        """)
    defer { table.close() }
    let giver = Giver()
    giver.text = "x"
    let object = table.export(giver.interface)
    table.client.call(Table.name, Table.path, Table.interface, "Give", then: { _ in })
    #expect(try await giver.came.next())
    #expect(await table.service.hasOwner(Table.name))
    #expect(giver.taken == 0)
    object.cancel()
  }

  @Test(
    "A reply text does not count as delivered if the connection ends before the bus has read it",
    arguments: [true, false])
  @LoopActor
  func handedOverTooLate(isClosedBefore: Bool) async throws {
    let table = try await Table()
    defer { table.close() }
    let giver = Giver()
    // More than a socket buffer holds, so the bus blocks.
    giver.text = String(repeating: "x", count: 16 << 20)
    var kept: MethodCall?
    let asked = Mailbox<Bool>()
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Give", out: [Argument("text", "s")],
            handler: { call in
              kept = call
              asked.put(true)
            })
        ]))
    table.client.call(Table.name, Table.path, Table.interface, "Give", then: { _ in })
    _ = try await asked.next()
    let call = try #require(kept)
    if isClosedBefore { table.service.close() }
    table.bus.pause()
    giver.give(call)
    table.service.close()
    table.bus.resume()
    #expect(try await giver.came.next())
    #expect(giver.taken == 0)
    object.cancel()
  }

  @Test("A D-Bus method with string arguments can be called with dbus-send")
  @LoopActor
  func byHand() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s")]))
    let output = try await dbusSend(
      table.bus,
      ["--print-reply", "--dest=\(Table.name)", "/org/example", "\(Table.interface).Echo", "string:Hello, all"])
    #expect(output.contains("string \"Hello, all\""))
    let refusal = try await dbusSend(
      table.bus, ["--print-reply", "--dest=\(Table.name)", "/org/example", "\(Table.interface).Echo", "uint32:1"])
    #expect(refusal.contains("org.earshot.Error.InvalidArgs: Echo takes value (s), but was given u."))
    object.cancel()
  }

  @Test("If `authorize` refuses a call, its error is returned, and the method handler does not run")
  @LoopActor
  func authorize() async throws {
    let table = try await Table()
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s"), echo("Other", "s")]))
    table.service.objects.authorize = { $0.member == "Echo" ? .denied("Not you, \($0.sender).") : nil }
    #expect(await table.error("Echo", [.string("")]) == .denied("Not you, \(table.client.uniqueName ?? "")."))
    #expect(try await table.call("Other", [.string("")]) == [.string("")])
    object.cancel()
  }
}
