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
