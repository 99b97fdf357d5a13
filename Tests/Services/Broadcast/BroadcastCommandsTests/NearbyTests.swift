import Calendar
import CommandLine
import DBus
import Foundation
import Loop
import Terminal
import TestSupport
import Testing

@testable import BroadcastCommands
@testable import Tool

/// The commands, run against a stand-in for the service on a bus of its own.
@Suite("Commands of `earshot nearby`", .serialized)
struct NearbyTests {
  init() { EventLoop.shared.runInBackground() }

  private static let tool = ToolProgram([NearbyTool.part], version: "1")
  private static let verbs = ["show", "send", "cancel", "watch", "notify", "limit"]

  @Test("Every verb of `earshot nearby` has help, completion, --json and an action")
  func verbs() throws {
    let nearby = try #require(Self.tool.grammar.commands.first { $0.name == "nearby" })
    #expect(nearby.commands.map(\.name) == Self.verbs)
    let help = try Self.tool.grammar.parse(["nearby", "--help"]).help
    for verb in Self.verbs {
      #expect(help.contains("\n  \(verb) "), "\(verb)")
      let own = try Self.tool.grammar.parse(["nearby", verb, "--help"]).help
      #expect(own.hasPrefix("Usage: earshot nearby \(verb) ") && own.contains("--json"))
      #expect(own.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(own)")
      #expect(NearbyTool.part.verbs.first?.action(at: ["nearby", verb]) != nil)
      for shell in Shell.allCases {
        #expect(Self.tool.grammar.completion(for: shell).contains("earshot nearby \(verb)"))
      }
    }
    #expect(try Self.tool.grammar.parse(["nearby"]).path == ["nearby", "show"])
  }

  @Test("`nearby send` sends the text unchanged and waits until the message was sent")
  @LoopActor
  func send() async throws {
    let bus = try await FeedBus()
    defer { bus.close() }
    #expect(await bus.run("send", "hello", "all") == ToolCall(.ok, "Message 7 was broadcast.\n"))
    #expect(await bus.run("send", "-", input: "from input\n").code == .ok)
    #expect(
      await bus.run("send", "--json", "x") == ToolCall(.ok, "{\n  \"message\": 7,\n  \"state\": \"sent\"\n}\n"))
    #expect(await bus.run("send", "--cut", String(repeating: "é", count: 20)).code == .ok)
    bus.outcome = nil
    let queued = "Message 7 is queued. To cancel it: earshot nearby cancel 7\n"
    #expect(await bus.run("send", "--no-wait", "x") == ToolCall(.ok, queued))
    #expect(
      bus.calls == [
        "Send hello all", "Send from input", "Send x", "Send \(String(repeating: "é", count: 12))", "Send x",
      ])
    #expect(await bus.run("send").code == .usage)
    #expect(await bus.run("send", "-", input: "").code == .usage)
    #expect(bus.calls.count == 5)
  }

  @Test("`nearby send` fails with the service's reason if the message is refused or its sending fails")
  @LoopActor
  func refused() async throws {
    let bus = try await FeedBus()
    defer { bus.close() }
    bus.outcome = ("MessageFailed", [.string("Timeout"), .string("No\u{1B} place.")])
    #expect(await bus.run("send", "x") == ToolCall(.timeout, "", "No\u{FFFD} place."))
    bus.outcome = ("MessageFailed", [.string("CutShort"), .string("Cut.")])
    #expect(await bus.run("send", "x") == ToolCall(.failed, "", "Cut."))
    bus.refusal = .limitExceeded("Four wait.")
    #expect(await bus.run("send", "x") == ToolCall(.failed, "", "Four wait."))
    #expect(await bus.run("notify") == ToolCall(.failed, "", "Four wait."))
  }

  @Test("`nearby limit` accepts 0 to 100, and `nearby notify` makes one D-Bus call")
  @LoopActor
  func notify() async throws {
    let bus = try await FeedBus()
    defer { bus.close() }
    #expect(await bus.run("notify") == ToolCall(.ok, "The notification is broadcast for a minute.\n"))
    #expect(await bus.run("limit", "0") == ToolCall(.ok, "Notifications are no longer reported on this machine.\n"))
    #expect(bus.limit == 0)
    #expect(await bus.run("limit", "100", "--json") == ToolCall(.ok, "{\n  \"notifyLimit\": 100\n}\n"))
    #expect(bus.limit == 100)
    for word in ["101", "-1", "x", "", "٣"] { #expect(await bus.run("limit", word).code == .usage, "\(word)") }
    #expect(bus.calls == ["Notify"] && bus.limit == 100)
  }

  @Test("`nearby show` shows the state of the channel, and fewer details to users outside the group")
  @LoopActor
  func show() async throws {
    let bus = try await FeedBus()
    defer { bus.close() }
    let shown = """
      state        degraded
      reason       No way to hear.
      peers        3 in the last minute
      notified     2 times a day at most, 1 left today
      counters     Since its start: 3 messages received, 0 sent. All: earshot status --counters

      """
    #expect(await bus.run() == ToolCall(.ok, shown))
    let call = await bus.run("show", "--json")
    let json = try #require(try JSONSerialization.jsonObject(with: Data(call.output.utf8)) as? NSDictionary)
    #expect(json["peers"] as? Int == 3 && json["notifiesLeft"] as? Int == 1 && json["listening"] as? Bool == true)
    let everybody = NearbyView(["State": .string("listening"), "Listening": .bool(true)])
    #expect(NearbyShown.text(everybody) == "state        listening\n")
    let objects = [
      BroadcastNames.path.string: [
        BroadcastNames.interface: ["State": DBusValue.string("listening"), "PeersNearby": .uint32(1)]
      ]
    ]
    #expect(NearbyTool.part.status(objects) == "  nearby    listening  1 peer\n")
    #expect(NearbyTool.part.status([:]) == "")
  }

  @Test("`nearby watch` starts with the last messages, prints new ones and ends when the service stops")
  @LoopActor
  func watch() async throws {
    let bus = try await FeedBus()
    defer { bus.close() }
    for number in 1...3 { bus.hear(UInt64(number), "text \(number)") }
    let isDone = Mailbox<ToolCall>()
    Task { @LoopActor in isDone.put(await bus.run("watch", "-n", "2")) }
    func listed(_ count: Int) async throws {
      while bus.calls.filter({ $0.hasPrefix("ListMessages") }).count < count { try await Self.turn() }
    }
    try await listed(1)
    bus.hear(4, "news", peer: "shy-owl", rssi: 127)
    try await listed(2)
    bus.emit("NotifyReceived")
    bus.hear(5, "\u{202E}turned \u{1B}[2J")
    try await listed(3)
    try await Self.turn()
    bus.close()
    let call = try await isDone.next()
    #expect(call.code == .notRunning)
    func time(_ number: UInt64) -> String { LocalTime.clock(FeedBus.time(number)) }
    #expect(
      call.output.split(separator: "\n") == [
        "\(time(2))  amber-otter  -60 dBm  text 2", "\(time(3))  amber-otter  -60 dBm  text 3",
        "\(time(4))  shy-owl  ? dBm  news", "Somebody nearby wants to talk.",
        "\(time(5))  amber-otter  -60 dBm  \u{FFFD}turned \u{FFFD}[2J",
      ])
  }

  @Test("`nearby watch --json` prints each message unchanged as one JSON object on a line")
  @LoopActor
  func watchJSON() async throws {
    let bus = try await FeedBus()
    defer { bus.close() }
    bus.hear(1, "\u{202E}x", rssi: 127)
    let isDone = Mailbox<ToolCall>()
    Task { @LoopActor in isDone.put(await bus.run("watch", "--json")) }
    while bus.calls.isEmpty { try await Self.turn() }
    bus.emit("NotifyReceived")
    try await Self.turn()
    try await Self.turn()
    bus.close()
    let lines = try await isDone.next().output.split(separator: "\n")
    #expect(lines.count == 2)
    let first = try #require(try JSONSerialization.jsonObject(with: Data((lines.first ?? "").utf8)) as? NSDictionary)
    #expect(first["text"] as? String == "\u{202E}x" && first["rssi"] is NSNull && first["message"] as? Int == 1)
    #expect(first["time"] as? UInt64 == FeedBus.time(1))
    #expect(lines.last == "{\"notified\":true}")
  }

  /// Runs the pending calls of the loop.
  @LoopActor
  private static func turn() async throws {
    let turned = Mailbox<Bool>()
    let timer = EventLoop.shared.schedule(after: .milliseconds(10)) { turned.put(true) }
    defer { timer.cancel() }
    _ = try await turned.next()
  }

  @Test("A line of `nearby watch` fits the terminal's width and contains no control characters")
  @LoopActor
  func columns() throws {
    let hostile = "a\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{200B}\u{2066}漢\n\u{85}b"
    let value = DBusValue.structure([
      .uint64(1), .uint64(FeedBus.time(1)), .string("shy-owl"), .string(hostile), .int16(-127),
    ])
    let message = try #require(NearbyMessage(value))
    let line = message.line(width: nil)
    for scalar in line.unicodeScalars {
      #expect(!["\n", "\u{85}", "\u{2066}", "\u{200B}"].contains(scalar))
    }
    #expect(line.unicodeScalars.count { $0 == "\u{301}" } == 3)
    for width in [1, 20, 30, 200] { #expect(DisplayText.width(message.line(width: width)) <= width) }
  }
}
