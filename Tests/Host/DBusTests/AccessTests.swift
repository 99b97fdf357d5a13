import Common
import DBus
import Glibc
import Loop
import TestSupport
import Testing

@Suite("Who may call")
struct AccessTests {
  init() { EventLoop.shared.runInBackground() }

  private static func rule(_ allows: @escaping @Sendable (Credentials) -> Bool) -> AccessRule {
    AccessRule(refusal: "Not you.", isPublic: AccessRule.onlyLooks, allows: allows)
  }

  @LoopActor
  private func table(_ allows: @escaping @Sendable (Credentials) -> Bool) async throws -> Table {
    let table = try await Table(configuration: "<policy context=\"default\"><allow user=\"*\"/></policy>")
    table.service.objects.access = Self.rule(allows)
    return table
  }

  @Test("Who is not allowed is turned away by name, and may still look")
  @LoopActor
  func denied() async throws {
    let table = try await table { $0.uid != getuid() }
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s")]))
    #expect(await table.error("Echo", [.string("x")])?.is(.denied) == true)
    #expect(await table.error("Introspect", on: "org.freedesktop.DBus.Introspectable") == nil)
    #expect(await table.error("Ping", on: "org.freedesktop.DBus.Peer") == nil)
    object.cancel()
  }

  @Test("The calls of one caller stay in their order while it is found out who it is")
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

  @Test("Calls that wait until it is known who calls: the limit is let in, one more is refused by name and counted")
  @LoopActor
  func waitingCalls() async throws {
    var limits = BusLimits()
    limits.waitingCalls = 5
    let table = try await Table(limits: limits)
    defer { table.close() }
    table.service.objects.access = Self.rule { $0.uid == getuid() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s")]))
    // All six are there before the bus has said who it is.
    let answers = Mailbox<DBusError?>()
    for _ in 0..<6 {
      table.client.call(Table.name, Table.path, Table.interface, "Echo", [.string("x")]) { result in
        if case .failure(let error) = result { answers.put(error) } else { answers.put(nil) }
      }
    }
    var errors: [DBusError?] = []
    for _ in 0..<6 { errors.append(try await answers.next()) }
    #expect(errors.compactMap { $0 }.count == 1 && errors.contains { $0?.is(.limitExceeded) == true })
    #expect(table.service.objects.tallies == [Tally("DeniedCalls", 0), Tally("RefusedCalls", 1)])
    // Known now, it waits for nothing.
    #expect(await table.error("Echo", [.string("x")]) == nil)
    object.cancel()
  }

  @Test("Callers of whom it is not known who they are: the limit is asked about, the calls of one more are refused")
  @LoopActor
  func waitingCallers() async throws {
    var limits = BusLimits()
    limits.waitingCallers = 1
    let table = try await Table(limits: limits)
    defer { table.close() }
    table.service.objects.access = Self.rule { $0.uid == getuid() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s")]))
    let second = BusConnection(address: .address(table.bus.address))
    defer { second.close() }
    second.connect()
    try await second.ready()
    // The bus answers once it has passed both calls on.
    let answers = Mailbox<DBusError?>()
    for caller in [table.client, second] {
      caller.call(Table.name, Table.path, Table.interface, "Echo", [.string("x")]) { result in
        if case .failure(let error) = result { answers.put(error) } else { answers.put(nil) }
      }
    }
    let errors = [try await answers.next(), try await answers.next()].compactMap { $0 }
    #expect(errors.allSatisfy { $0.is(.limitExceeded) } && errors.count <= 1)
    #expect(table.service.objects.tallies.last == Tally("RefusedCalls", errors.count))
    #expect(await table.error("Echo", [.string("x")]) == nil)
    object.cancel()
  }

  @Test("Another user's program is told apart from ours", .enabled(if: getuid() == 0, "only root can be two users"))
  @LoopActor
  func twoUsers() async throws {
    let table = try await table { $0.uid == 0 }
    defer { table.close() }
    let object = table.export(Interface(Table.interface, methods: [echo("Echo", "s")]))
    #expect(await table.error("Echo", [.string("x")]) == nil)
    let said = try await dbusSend(
      table, ["--print-reply", "--dest=\(Table.name)", Table.path.string, "\(Table.interface).Echo", "string:x"],
      as: ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"])
    #expect(said.contains("org.earshot.Error.Denied"), "\(said)")
    object.cancel()
  }
}
