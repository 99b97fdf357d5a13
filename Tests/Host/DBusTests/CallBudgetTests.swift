import Common
import Loop
import TestSupport
import Testing

@testable import DBus

@Suite("Budgets for the calls of each program")
struct CallBudgetTests {
  init() { EventLoop.shared.runInBackground() }

  private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  @Test(
    "Each calling program has a budget for calls that cost 5 s, which refills with time")
  func points() {
    let budget = Purse(perSecond: 10)
    for _ in 0..<50 { #expect(budget.take(1, of: ":1.1", at: Self.at(0))) }
    #expect(!budget.take(1, of: ":1.1", at: Self.at(99)))
    #expect(budget.take(1, of: ":1.1", at: Self.at(100)) && !budget.take(1, of: ":1.1", at: Self.at(100)))
    #expect(budget.take(50, of: ":1.2", at: Self.at(100)))
    #expect(!budget.take(51, of: ":1.1", at: Self.at(1_000_000)))
    #expect(budget.take(50, of: ":1.1", at: Self.at(1_000_000)))
    #expect(!budget.take(1, of: ":1.1", at: Self.at(1_000_000)))
    #expect(!budget.take(1, of: ":1.1", at: Self.at(0)), "a clock that goes back brings nothing")
  }

  @Test(
    "Costs that are charged after a call count only for its program, and are paid off within 5 s")
  func charged() {
    let budget = Purse(perSecond: 10)
    #expect(budget.take(1, of: ":1.1", at: Self.at(0)))
    budget.charge(30, to: ":1.1", at: Self.at(0))
    #expect(!budget.take(20, of: ":1.1", at: Self.at(0)) && budget.take(19, of: ":1.1", at: Self.at(0)))
    #expect(budget.take(50, of: ":1.2", at: Self.at(0)))
    budget.charge(1_000_000, to: ":1.1", at: Self.at(0))
    #expect(!budget.take(1, of: ":1.1", at: Self.at(0)) && budget.take(50, of: ":1.1", at: Self.at(5000)))
  }

  @Test("Programs that do not fit in the table share one budget, or reuse entries of idle programs")
  func table() {
    let budget = Purse(perSecond: 10)
    for number in 0..<CallBudget.capacity { #expect(budget.take(50, of: ":1.\(number)", at: Self.at(0))) }
    #expect(budget.take(30, of: ":2.1", at: Self.at(0)) && budget.take(20, of: ":2.2", at: Self.at(0)))
    #expect(!budget.take(1, of: ":2.3", at: Self.at(0)))
    #expect(budget.take(50, of: ":2.3", at: Self.at(5000)) && budget.take(50, of: ":2.4", at: Self.at(5000)))
  }

  @Test(
    "Calls of a program over its budget are refused and counted, and those of others and bluetoothd are served"
  )
  @LoopActor
  func throttled() async throws {
    let bus = try PrivateBus()
    var limits = BusLimits()
    limits.callsPerSecond = 10
    // The clock does not advance, so that budgets are not refilled.
    let service = BusConnection(address: .address(bus.address), scheduler: HandClock(), limits: limits)
    service.objects.access = AccessRule(
      refusal: "No.", isOpen: { $0.interface == "org.example.Open1" || $0.interface == "org.example.Charged1" },
      isCharged: { $0.interface == "org.example.Charged1" }, allows: { _ in true })
    let object = service.objects.export(
      "/org/example",
      interfaces: [
        Interface("org.example.Open1", methods: [Method("Write", returning: { _ in [] })]),
        Interface("org.example.Charged1", methods: [Method("Use", returning: { _ in [] })]),
        Interface(
          "org.example.Thing1",
          methods: [
            Method("Do", returning: { _ in [] }),
            // The reply costs twelve points in addition to the call.
            Method(
              "Tell", out: [Argument("bytes", "ay")], returning: { _ in [.bytes([UInt8](repeating: 7, count: 50_000))] }
            ),
            Method("Hand", out: [Argument("bytes", "ay")]) { call in
              _ = try? call.handOver([.bytes([UInt8](repeating: 7, count: 50_000))]) {}
            },
          ]),
      ])
    let (greedy, modest) = (
      BusConnection(address: .address(bus.address)), BusConnection(address: .address(bus.address))
    )
    defer {
      object.cancel()
      for connection in [service, greedy, modest] { connection.close() }
      bus.stop()
    }
    service.connect(name: Table.name)
    for connection in [greedy, modest] { connection.connect() }
    for connection in [service, greedy, modest] { try await connection.ready() }
    func error(_ caller: BusConnection, _ interface: String, _ method: String) async -> DBusError? {
      do throws(DBusError) {
        _ = try await caller.call(Table.name, "/org/example", interface, method)
        return nil
      } catch {
        return error
      }
    }
    // 3 times 16 points are 48 of 50.
    service.objects.exportManager("/org/example")
    for _ in 0..<3 { #expect(await error(greedy, StandardName.objectManager, "GetManagedObjects") == nil) }
    #expect(await error(greedy, StandardName.objectManager, "GetManagedObjects")?.is(.limitExceeded) == true)
    for _ in 0..<2 { #expect(await error(greedy, "org.example.Thing1", "Do") == nil) }
    #expect(await error(greedy, "org.example.Thing1", "Do")?.is(.limitExceeded) == true)
    #expect(service.objects.tallies.contains(Tally("ThrottledCalls", 2)))
    #expect(await error(modest, "org.example.Thing1", "Do") == nil)
    for method in ["Tell", "Hand", "Tell", "Hand"] { #expect(await error(modest, "org.example.Thing1", method) == nil) }
    #expect(await error(modest, "org.example.Thing1", "Do")?.is(.limitExceeded) == true)
    for _ in 0..<60 { #expect(await error(greedy, "org.example.Open1", "Write") == nil) }
    #expect(await error(greedy, "org.example.Charged1", "Use")?.is(.limitExceeded) == true)
    let exemption = service.objects.exempt(try #require(greedy.uniqueName))
    for _ in 0..<60 { #expect(await error(greedy, "org.example.Charged1", "Use") == nil) }
    #expect(await error(greedy, "org.example.Thing1", "Do")?.is(.limitExceeded) == true)
    exemption.cancel()
    #expect(await error(greedy, "org.example.Charged1", "Use")?.is(.limitExceeded) == true)
  }

  @Test("After each long call the event loop runs its other work")
  @LoopActor
  func turns() async throws {
    let bus = try PrivateBus()
    let clock = HandClock()
    var limits = BusLimits()
    limits.turn = .milliseconds(2)
    let service = BusConnection(address: .address(bus.address), scheduler: clock, limits: limits)
    let client = BusConnection(address: .address(bus.address))
    var lines: [String] = []
    let object = service.objects.export(
      "/org/example",
      interfaces: [
        Interface(
          "org.example.Thing1",
          methods: [
            Method(
              "Do",
              returning: { _ in
                lines.append("call")
                clock.advance(by: .milliseconds(2))
                EventLoop.shared.soon { lines.append("other") }
                return []
              })
          ])
      ])
    defer {
      object.cancel()
      for connection in [service, client] { connection.close() }
      bus.stop()
    }
    service.connect(name: Table.name)
    client.connect()
    for connection in [service, client] { try await connection.ready() }
    let answers = Mailbox<Bool>()
    for _ in 0..<20 {
      client.call(Table.name, "/org/example", "org.example.Thing1", "Do") { _ in answers.put(true) }
    }
    for _ in 0..<20 { _ = try await answers.next() }
    // Messages are dispatched when the socket is read and once more at the end of the loop iteration: two calls,
    // where the limit alone permits 64.
    let together = lines.split(separator: "other").map(\.count).max() ?? 0
    #expect(lines.filter { $0 == "call" }.count == 20 && (1...2).contains(together))
  }

  @Test("A call for a property that wants no reply is not executed; a method call without reply is")
  @LoopActor
  func unwanted() async throws {
    let table = try await Table()
    defer { table.close() }
    var reads = 0
    var done = 0
    let object = table.export(
      Interface(
        Table.interface,
        methods: [
          Method(
            "Do",
            returning: { _ in
              done += 1
              return []
            })
        ],
        properties: [
          Property(
            "Reads", "i",
            get: {
              reads += 1
              return .int32(Int32(reads))
            })
        ]))
    defer { object.cancel() }
    table.service.objects.exportManager("/org")
    let looks: [(String?, String, [DBusValue])] = [
      (StandardName.properties, "Get", [.string(Table.interface), .string("Reads")]),
      (StandardName.properties, "GetAll", [.string(Table.interface)]),
      (nil, "GetAll", [.string(Table.interface)]),
    ]
    for (interface, member, arguments) in looks {
      var message = Message.call(Table.name, Table.path, interface ?? StandardName.properties, member, arguments)
      message.interface = interface
      message.expectsReply = false
      _ = try table.client.transport?.send(message)
    }
    var message = Message.call(Table.name, Table.path, Table.interface, "Do")
    message.expectsReply = false
    _ = try table.client.transport?.send(message)
    let before = reads
    let answer = try await table.call(
      "Get", [.string(Table.interface), .string("Reads")], on: StandardName.properties)
    #expect(answer.first?.unwrapped.asInteger == 2 && before == 1, "once at its export, once for this call")
    #expect(done == 1)
  }
}

/// A budget held by a class, so that an expectation can take from it.
private final class Purse {
  private var budget: CallBudget

  init(perSecond: Int) {
    budget = CallBudget(perSecond: perSecond)
  }

  func take(_ points: Int, of sender: String, at now: Instant) -> Bool { budget.take(points, of: sender, at: now) }

  func charge(_ points: Int, to sender: String, at now: Instant) { budget.charge(points, to: sender, at: now) }
}
