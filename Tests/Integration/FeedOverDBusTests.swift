import Air
import Common
import DBus
import Glibc
import Loop
import Radio
import Sharing
import TestSupport
import Testing

@testable import Broadcast

/// The local broadcast channel as seen by a program on the bus; the radio is in virtual time.
@Suite("The local broadcast channel over D-Bus")
struct FeedOverDBusTests {
  init() { EventLoop.shared.runInBackground() }

  /// Start time of the service, in milliseconds since 1970. Message numbers begin there.
  private static let start: UInt64 = 1_800_000_000_000

  /// The number of the first message, of the second, and so on.
  private static func number(_ count: UInt64) -> UInt64 { start + count }

  @LoopActor
  private final class Stage {
    let bus: PrivateBus
    let time = VirtualTime()
    let air: AirSpace
    let service: BroadcastService
    private let radio: SharedRadio
    private let server: BusConnection
    private let client: BusConnection
    private var face: BroadcastAdaptor?
    private var watch: Registration?
    private var ticker: Registration?
    let signals = Mailbox<String>()

    init() async throws {
      bus = try PrivateBus()
      air = AirSpace(scheduler: time, seed: 1)
      radio = SharedRadio(driver: air.addNode(), scheduler: time)
      service = BroadcastService(
        radio: radio.tenant("broadcast", share: .nothing), scheduler: time, settings: .init(),
        keeper: NotificationStore(directory: "", scheduler: time, disk: time),
        clock: VirtualWallClock(HandClock(), from: Int64(FeedOverDBusTests.start)))
      server = BusConnection(address: .address(bus.address))
      client = BusConnection(address: .address(bus.address))
      server.objects.exportManager("/org/earshot")
      face = BroadcastAdaptor(service, on: server.objects, manager: "/org/earshot")
      server.connect(name: "org.earshot")
      try await server.ready()
      client.connect()
      try await client.ready()
      let match = SignalMatch(sender: "org.earshot", interface: BroadcastAdaptor.interfaceName)
      watch = client.subscribe(match) { [signals] message in
        signals.put(([message.member ?? ""] + message.arguments.map(\.text)).joined(separator: " "))
      }
      service.start()
      tick()
    }

    /// Runs pending calls in virtual time while a call waits for its reply.
    private func tick() {
      time.advance(by: .milliseconds(1))
      ticker = EventLoop.shared.schedule(after: .milliseconds(5)) { [weak self] in self?.tick() }
    }

    /// Waits until this number of messages is queued.
    func await(waiting: Int) async throws {
      let isSo = Mailbox<Void>()
      var timer: Registration?
      func look() {
        if service.engine?.waiting == waiting { return isSo.put(()) }
        timer = EventLoop.shared.schedule(after: .milliseconds(20)) { look() }
      }
      look()
      defer { timer?.cancel() }
      try await isSo.next()
    }

    func close() {
      watch?.cancel()
      ticker?.cancel()
      client.close()
      server.close()
      bus.stop()
    }

    func call(_ method: String, _ arguments: DBusValue...) async throws(DBusError) -> [DBusValue] {
      try await client.call("org.earshot", BroadcastAdaptor.path, BroadcastAdaptor.interfaceName, method, arguments)
    }

    /// The name of the error in the reply; empty on success.
    func refusal(_ method: String, _ arguments: DBusValue...) async -> String {
      do throws(DBusError) {
        _ = try await client.call(
          "org.earshot", BroadcastAdaptor.path, BroadcastAdaptor.interfaceName, method, arguments)
        return ""
      } catch {
        return error.name
      }
    }

    func setLimit(_ limit: UInt32) async -> String {
      do throws(DBusError) {
        _ = try await client.call(
          "org.earshot", BroadcastAdaptor.path, "org.freedesktop.DBus.Properties", "Set",
          [.string(BroadcastAdaptor.interfaceName), .string("NotifyLimit"), .variant(.uint32(limit))])
        return ""
      } catch {
        return error.name
      }
    }

    func hear(_ name: String, rssi: Int?) {
      let data = [2, 1, 6, UInt8(1 + name.utf8.count), 9] + Array(name.utf8)
      air.send(
        AdvertisingPacket(
          address: BluetoothAddress(7), addressKind: .randomAddress, kind: .connectable, rssi: rssi, time: time.now,
          data: data))
      time.advance(by: .seconds(5))
    }
  }

  private static func error(_ name: String) -> String { "org.earshot.Error.\(name)" }

  @Test("One D-Bus call sends a broadcast message; a refusal has an error name, and the end of sending is signalled")
  @LoopActor
  func sending() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    #expect(try await stage.call("Send", .string("hello")) == [.uint64(Self.number(1))])
    #expect(await stage.refusal("Send", .string("")) == Self.error("InvalidArgs"))
    for _ in 0..<3 { _ = try await stage.call("Send", .string("more")) }
    #expect(await stage.refusal("Send", .string("fifth")) == Self.error("LimitExceeded"))
    #expect(await stage.refusal("Cancel", .uint64(Self.number(3))) == "")
    #expect(await stage.refusal("Cancel", .uint64(Self.number(3))) == Self.error("NotFound"))
    #expect(try await stage.signals.next() == "MessageFailed \(Self.number(3)) Cancelled The message was cancelled.")
    stage.time.advance(by: .seconds(5))
    #expect(try await stage.signals.next() == "MessageSent \(Self.number(1))")
    #expect(await stage.refusal("Notify") == "")
    #expect(await stage.refusal("Notify") == Self.error("LimitExceeded"))
    stage.time.advance(by: .seconds(70))
    let rest = Set([try await stage.signals.next(), try await stage.signals.next(), try await stage.signals.next()])
    #expect(rest == ["MessageSent \(Self.number(2))", "MessageSent \(Self.number(4))", "NotifySent"])
  }

  @Test(
    "Interrupting `nearby send` cancels its message, and `nearby cancel` cancels a message by its number")
  @LoopActor
  func interrupted() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    _ = try await stage.call("Send", .string("first"))
    let run = try ToolRun.earshot("nearby", "send", "second", bus: stage.bus.address)
    try await stage.await(waiting: 2)
    run.signal(SIGINT)
    let result = try await run.end()
    #expect(result.status == SIGINT && result.complaint.hasPrefix("Cancelled."), "\(result)")
    #expect(try await stage.signals.next() == "MessageFailed \(Self.number(2)) Cancelled The message was cancelled.")

    let queued = try await ToolRun.earshot("nearby", "send", "third", "--no-wait", bus: stage.bus.address).end()
    #expect(queued.output.contains("earshot nearby cancel \(Self.number(3))"), "\(queued)")
    let third = String(Self.number(3))
    let cancelled = try await ToolRun.earshot("nearby", "cancel", third, bus: stage.bus.address).end()
    #expect(cancelled.status == 0 && cancelled.output == "Message \(third) is cancelled.\n", "\(cancelled)")
    #expect(try await ToolRun.earshot("nearby", "cancel", third, bus: stage.bus.address).end().status == 1)
    #expect(try await ToolRun.earshot("nearby", "cancel", "x", bus: stage.bus.address).end().status == 2)
    stage.time.advance(by: .seconds(30))
    #expect(try await stage.signals.first { $0.hasPrefix("MessageSent") } == "MessageSent \(Self.number(1))")
    #expect(stage.service.engine?.waiting == 0)
  }

  @Test("A received broadcast message is signalled by number, and listed with time, words, text and RSSI")
  @LoopActor
  func hearing() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    stage.hear("~1first", rssi: -71)
    stage.hear("~2second \u{202E}", rssi: nil)
    #expect(try await stage.signals.next() == "MessageReceived \(Self.number(1))")
    #expect(try await stage.signals.next() == "MessageReceived \(Self.number(2))")
    let rows = try await stage.call("ListMessages", .uint64(0), .uint32(0)).first?.asArray ?? []
    let members = rows.map { $0.asArray ?? [] }
    #expect(members.map { $0.first?.asUInt64 } == [Self.number(1), Self.number(2)])
    #expect(members.map { $0[3].asString } == ["first", "second \u{202E}"])
    #expect(members.map { $0[4].asInteger } == [-71, 127])
    let words = Set(members.compactMap { $0[2].asString })
    #expect(words.count == 1 && words.allSatisfy { $0.split(separator: "-").count == 2 })
    #expect(members.allSatisfy { ($0[1].asUInt64 ?? 0) > 0 })
    let one = try await stage.call("ListMessages", .uint64(Self.number(1)), .uint32(1)).first?.asArray ?? []
    #expect(one.map { $0.asArray?.first?.asUInt64 } == [Self.number(2)])
  }

  @Test("The limit of beacon notifications can be set from 0 to 100")
  @LoopActor
  func limit() async throws {
    let stage = try await Stage()
    defer { stage.close() }
    #expect(await stage.setLimit(101) == Self.error("InvalidArgs"))
    #expect(stage.service.notifyLimit == 2)
    #expect(await stage.setLimit(0) == "")
    #expect(stage.service.notifyLimit == 0 && stage.service.notificationsLeft == 0)
    stage.service.stop()
    #expect(await stage.setLimit(3) == Self.error("NotReady"))
    #expect(await stage.refusal("Send", .string("x")) == Self.error("NotReady"))
  }
}
