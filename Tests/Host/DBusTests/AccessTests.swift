import Common
import Glibc
import Loop
import TestSupport
import Testing

@testable import DBus

@Suite("D-Bus access control")
struct AccessTests {
  init() { EventLoop.shared.runInBackground() }

  private static func rule(_ allows: @escaping @Sendable (Credentials) -> Bool) -> AccessRule {
    AccessRule(refusal: "Not you.", allows: allows)
  }

  @LoopActor
  private func table(_ allows: @escaping @Sendable (Credentials) -> Bool) async throws -> Table {
    let table = try await Table(configuration: "<policy context=\"default\"><allow user=\"*\"/></policy>")
    table.service.objects.access = Self.rule(allows)
    return table
  }

  @Test("A caller without access gets the error `Denied`, but may introspect")
  @LoopActor
  func denied() async throws {
    let table = try await table { $0.uid != getuid() }
    defer { table.close() }
    let object = table.export(Interface(Table.interface, audience: .everybody, methods: [echo("Echo", "s")]))
    #expect(await table.error("Echo", [.string("x")])?.is(.denied) == true)
    #expect(await table.error("Introspect", on: "org.freedesktop.DBus.Introspectable") == nil)
    #expect(await table.error("Ping", on: "org.freedesktop.DBus.Peer") == nil)
    object.cancel()
  }

  @Test("A viewer may call methods and read items for viewers, but none for the group")
  @LoopActor
  func viewer() async throws {
    let table = try await Table(configuration: "<policy context=\"default\"><allow user=\"*\"/></policy>")
    defer { table.close() }
    table.service.objects.access = AccessRule(
      refusal: "Not you.", views: { $0.uid == getuid() }, allows: { $0.uid != getuid() })
    var groups: [Bool] = []
    let watch = Method(
      "Watch", audience: .viewers,
      handler: { call in
        groups.append(call.isOfGroup)
        call.reply()
      })
    let object = table.export(
      Interface(
        Table.interface, audience: .everybody, methods: [echo("Echo", "s"), watch],
        properties: [
          Property("Public", "u", audience: .everybody, get: { .uint32(1) }),
          Property("Viewed", "u", audience: .viewers, get: { .uint32(2) }, set: { (_) throws(DBusError) in }),
          Property("Secret", "u", audience: .group, get: { .uint32(3) }),
        ]))
    #expect(await table.error("Watch", []) == nil && groups == [false])
    #expect(await table.error("Echo", [.string("x")])?.is(.denied) == true)
    let properties = StandardName.properties
    let all = try await table.client.call(
      Table.name, Table.path, properties, "GetAll", [.string(Table.interface)])
    #expect(Set((all.first?.asDictionary ?? [:]).keys) == ["Public", "Viewed"])
    let set = await table.error(
      "Set", [.string(Table.interface), .string("Viewed"), .variant(.uint32(9))], on: properties)
    #expect(set?.is(.denied) == true)
    #expect(table.service.objects.tallies.first { $0.name == "DeniedCalls" }?.count == 2)
    object.cancel()
  }

  @Test("A caller that is not a viewer may not call a method for viewers")
  @LoopActor
  func noViewer() async throws {
    let table = try await table { _ in false }
    defer { table.close() }
    let object = table.export(
      Interface(
        Table.interface, audience: .everybody,
        methods: [Method("Watch", audience: .viewers, handler: { $0.reply() })]))
    #expect(await table.error("Watch", [])?.is(.denied) == true)
    object.cancel()
  }

  @Test("Files read for a method call are charged to the caller's user")
  @LoopActor
  func owner() async throws {
    let table = try await table { $0.uid == getuid() }
    defer { table.close() }
    var owners: [FileReader.Owner] = []
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Note",
            handler: { call in
              owners.append(call.owner)
              call.reply()
            })
        ]))
    _ = try await table.call("Note")
    #expect(owners == [.user(getuid())])
    object.cancel()
  }

  @Test("Calls of one caller stay in order while the bus is asked for the caller's user")
  @LoopActor
  func order() async throws {
    let table = try await table { $0.uid == getuid() }
    defer { table.close() }
    var seen: [UInt32] = []
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Note", in: [Argument("number", "u")],
            handler: { call in
              seen.append(call.arguments.first?.asUInt32 ?? 0)
              call.reply()
            })
        ]))
    let answered = Mailbox<UInt32>()
    for number in 0..<UInt32(50) {
      table.client.call(Table.name, Table.path, Table.interface, "Note", [.uint32(number)]) { _ in answered.put(number)
      }
    }
    for number in 0..<UInt32(50) { #expect(try await answered.next() == number) }
    #expect(seen == Array(0..<UInt32(50)))
    object.cancel()
  }

  /// Handles a call as if the bus had delivered it, and returns the reply of the same loop iteration.
  @LoopActor
  private func arrive(_ sender: String, at table: Table) throws -> Bool {
    var call = Message.call(Table.name, Table.path, Table.interface, "Echo", [.string("x")])
    (call.sender, call.serial) = (sender, 1)
    let answer = Answer(to: call, over: try #require(table.service.answers))
    table.service.objects.receive(call, answer)
    return answer.isGiven
  }

  @Test("While a caller's user is looked up, a limited number of its calls wait; a further call is refused and counted")
  @LoopActor
  func waitingCalls() async throws {
    var limits = BusLimits()
    limits.waitingCalls = 5
    let table = try await Table(limits: limits)
    defer { table.close() }
    table.service.objects.access = Self.rule { $0.uid == getuid() }
    for number in 1...6 { #expect(try arrive(":1.9000", at: table) == (number == 6), "call \(number)") }
    #expect(table.refusals == [Tally("DeniedCalls", 0), Tally("RefusedCalls", 1)])
    #expect(try !arrive(":1.9001", at: table), "another caller is held up by the first")
  }

  @Test("User look-ups run for a limited number of callers at a time, and a call beyond it is refused and counted")
  @LoopActor
  func waitingCallers() async throws {
    var limits = BusLimits()
    limits.waitingCallers = 3
    let table = try await Table(limits: limits)
    defer { table.close() }
    table.service.objects.access = Self.rule { $0.uid == getuid() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s")]))
    for number in 1...4 { #expect(try arrive(":1.900\(number)", at: table) == (number == 4), "caller \(number)") }
    #expect(table.refusals == [Tally("DeniedCalls", 0), Tally("RefusedCalls", 1)])
    // The bus has answered the queries about all senders before this one; none of the names has an owner.
    _ = try await table.service.call(
      "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "GetId", [])
    #expect(await table.error("Echo", [.string("x")]) == nil)
    #expect(table.refusals == [Tally("DeniedCalls", 3), Tally("RefusedCalls", 1)])
    object.cancel()
  }

  @Test(
    "A caller with another user ID is distinguished from the service's own user",
    .enabled(if: getuid() == 0, "only root can be two users"))
  @LoopActor
  func twoUsers() async throws {
    let table = try await table { $0.uid == 0 }
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s")]))
    #expect(await table.error("Echo", [.string("x")]) == nil)
    let said = try await dbusSend(
      table.bus, ["--print-reply", "--dest=\(Table.name)", Table.path.string, "\(Table.interface).Echo", "string:x"],
      as: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    #expect(said.contains("org.earshot.Error.Denied"), "\(said)")
    object.cancel()
  }
}
