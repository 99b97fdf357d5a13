import DBus
import Loop
import TestSupport
import Tool

@testable import BroadcastCommands

/// A stand-in for the service on a bus of its own: it has a local broadcast channel, and records the calls.
@LoopActor
final class FeedBus {
  private let stand: StandInService
  private var feed: ExportedObject?

  /// The stored messages of the stand-in, each with number, peer words, text and RSSI.
  var messages: [(number: UInt64, peer: String, text: String, rssi: Int16)] = []
  /// The signal that the stand-in sends after a message was queued; nil for none.
  var outcome: (signal: String, arguments: [DBusValue])? = ("MessageSent", [])
  private(set) var limit: UInt32 = 2

  init() async throws {
    stand = try StandInService()
    stand.export(Client.manager, Interface(Client.managerInterface, audience: .everybody))
    feed = stand.export(BroadcastNames.path, face())
    try await stand.begin()
  }

  /// All calls with their arguments, in order.
  var calls: [String] { stand.calls }
  /// The error that answers all calls.
  var refusal: DBusError? {
    get { stand.refusal }
    set { stand.refusal = newValue }
  }

  func close() { stand.close() }

  func run(_ words: String..., input: String = "") async -> ToolCall {
    await stand.run(NearbyTool.part, "nearby", words, input: input)
  }

  func hear(_ number: UInt64, _ text: String, peer: String = "amber-otter", rssi: Int16 = -60) {
    messages.append((number, peer, text, rssi))
    emit("MessageReceived", [.uint64(number)])
  }

  func emit(_ signal: String, _ arguments: [DBusValue] = []) {
    feed?.emit(BroadcastNames.interface, signal, arguments)
  }

  private func face() -> Interface {
    Interface(
      BroadcastNames.interface, audience: .everybody,
      methods: [
        stand.method("Send", ["s"], out: ["t"]) { [weak self] _ in
          // The command must ignore this signal, which is about a message of another program.
          self?.emit("MessageSent", [.uint64(6)])
          if let outcome = self?.outcome { self?.emit(outcome.signal, [.uint64(7)] + outcome.arguments) }
          return [.uint64(7)]
        },
        stand.method("Notify"),
        stand.method("ListMessages", ["t", "u"], out: ["a(ttssn)"]) { [weak self] in self?.page($0) ?? [] },
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
              [DBusEntry(.string("ReceivedMessages"), .uint64(3)), DBusEntry(.string("Duplicates"), .uint64(2))])
          }),
      ],
      signals: [
        Signal("MessageReceived", [Argument("message", "t")]), Signal("MessageSent", [Argument("message", "t")]),
        Signal("MessageFailed", [Argument("message", "t"), Argument("error", "s"), Argument("sentence", "s")]),
        Signal("NotifyReceived"),
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
