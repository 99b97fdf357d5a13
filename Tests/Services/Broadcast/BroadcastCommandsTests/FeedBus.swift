import DBus
import Loop
import TestSupport
import Tool

@testable import BroadcastCommands

/// A stand-in for the service on a bus of its own: it has a local broadcast channel, and records the calls.
@LoopActor
final class FeedBus {
  let bus: PrivateBus
  private let connection: BusConnection
  private var objects: [ExportedObject] = []
  private var feed: ExportedObject?

  /// All calls with their arguments, in order.
  private(set) var calls: [String] = []
  /// Number, peer, text and signal.
  var messages: [(number: UInt64, peer: String, text: String, rssi: Int16)] = []
  /// The error that answers the next call.
  var refusal: DBusError?
  /// The signal that follows a sent message; nil for none.
  var outcome: (signal: String, arguments: [DBusValue])? = ("MessageSent", [])
  private(set) var limit: UInt32 = 2

  init() async throws {
    bus = try PrivateBus()
    connection = BusConnection(address: .address(bus.address))
    let tree = connection.objects
    tree.exportManager(Client.manager)
    objects.append(
      tree.export(Client.manager, interfaces: [Interface(Client.managerInterface, audience: .everybody)]))
    let feed = tree.export(BroadcastNames.path, interfaces: [face()], manager: Client.manager)
    self.feed = feed
    objects.append(feed)
    connection.connect(name: "org.earshot")
    try await connection.ready()
  }

  func close() {
    connection.close()
    bus.stop()
  }

  func run(_ words: String..., input: String = "") async -> ToolCall {
    await ToolCall.run(NearbyTool.part, ["nearby", "--bus", bus.address] + words, input: input)
  }

  func hear(_ number: UInt64, _ text: String, peer: String = "amber-otter", rssi: Int16 = -60) {
    messages.append((number, peer, text, rssi))
    emit("MessageHeard", [.uint64(number)])
  }

  func emit(_ signal: String, _ arguments: [DBusValue] = []) {
    feed?.emit(BroadcastNames.interface, signal, arguments)
  }

  private func note(_ call: MethodCall) throws(DBusError) {
    calls.append(([call.member] + call.arguments.map(\.text)).joined(separator: " "))
    if let refusal { throw refusal }
  }

  private func method(
    _ name: String, _ arguments: String..., out: String..., answer: @escaping @LoopActor (MethodCall) -> [DBusValue]
  ) -> Method {
    Method(
      name, in: arguments.map { Argument("a", $0) }, out: out.map { Argument("b", $0) },
      returning: { [weak self] call throws(DBusError) in
        try self?.note(call)
        return answer(call)
      })
  }

  private func face() -> Interface {
    Interface(
      BroadcastNames.interface, audience: .everybody,
      methods: [
        method("Send", "s", out: "t") { [weak self] _ in
          // A message of a different program is reported before the command's own.
          self?.emit("MessageSent", [.uint64(6)])
          if let outcome = self?.outcome { self?.emit(outcome.signal, [.uint64(7)] + outcome.arguments) }
          return [.uint64(7)]
        },
        method("Notify") { _ in [] },
        method("ListMessages", "t", "u", out: "a(ttssn)") { [weak self] in self?.page($0) ?? [] },
      ],
      properties: [
        Property("State", "s", audience: .everybody, get: { .string("degraded") }),
        Property("Reason", "s", audience: .everybody, get: { .string("No way to hear.") }),
        Property("Listening", "b", audience: .everybody, get: { .bool(true) }),
        Property("PeersNearby", "u", get: { .uint32(3) }),
        Property(
          "NotifyLimit", "u", get: { [weak self] in .uint32(self?.limit ?? 0) },
          set: { [weak self] value throws(DBusError) in self?.limit = value.asUInt32 ?? 0 }),
        Property("NotifiesLeft", "u", get: { .uint32(1) }),
        Property(
          "Counters", "a{st}", audience: .everybody, emits: .none,
          get: {
            .dictionary(
              key: "s", value: "t",
              [DBusEntry(.string("HeardMessages"), .uint64(3)), DBusEntry(.string("Duplicates"), .uint64(2))])
          }),
      ],
      signals: [
        Signal("MessageHeard", [Argument("message", "t")]), Signal("MessageSent", [Argument("message", "t")]),
        Signal("MessageFailed", [Argument("message", "t"), Argument("error", "s"), Argument("sentence", "s")]),
        Signal("NotifyHeard"),
      ])
  }

  /// The time at which the message with a number was received, in milliseconds since 1970-01-01 UTC.
  static func time(_ number: UInt64) -> UInt64 { 1_773_057_600_000 + number * 1000 }

  private func page(_ call: MethodCall) -> [DBusValue] {
    let after = call.arguments.first?.asUInt64 ?? 0
    let rows = messages.filter { $0.number > after }.map { message -> DBusValue in
      .structure([
        .uint64(message.number), .uint64(Self.time(message.number)), .string(message.peer),
        .string(message.text), .int16(message.rssi),
      ])
    }
    return [.array(of: "(ttssn)", rows)]
  }
}
