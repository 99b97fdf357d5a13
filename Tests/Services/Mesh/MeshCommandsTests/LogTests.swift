import Calendar
import CommandLine
import Foundation
import Loop
import MeshNaming
import MeshViews
import Terminal
import TestSupport
import Testing

@testable import MeshCommands
@testable import Tool

@Suite("`earshot mesh log`", .serialized)
struct LogTests {
  init() { EventLoop.shared.runInBackground() }

  private static func message(
    _ number: UInt32, _ sender: String, _ text: String, to conversation: String = "", nickname: String? = nil,
    _ state: MeshMessageView.State = .seen
  ) -> MeshMessageView {
    let names = [MeshStand.own: "desk", MeshStand.alice: "alice", MeshStand.bob: "bob", MeshStand.other: "Bob"]
    return MeshMessageView(
      number: number, time: UInt64(number) * 1000, conversation: conversation, sender: sender,
      nickname: nickname ?? names[sender] ?? "", text: text, state: state)
  }

  private static let some = [
    message(1, MeshStand.alice, "hello"), message(2, MeshStand.own, "hi", .sent),
    message(3, MeshStand.alice, "psst", to: MeshStand.alice, .unread),
    message(4, MeshStand.own, "what?", to: MeshStand.alice, .delivered),
    message(5, MeshStand.bob, "I am here too", .unread),
  ]

  private static func time(_ number: UInt64) -> String { LocalTime.text(number * 1000) }

  @Test("`mesh log` prints a line for each public and private message")
  @LoopActor
  func all() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    #expect(await stand.run("log") == ToolCall(.ok, ""))
    stand.messages = Self.some
    #expect(
      await stand.run("log").output.split(separator: "\n") == [
        "\(Self.time(1))  <alice>: hello", "\(Self.time(2))  <desk>: hi",
        "\(Self.time(3))  <alice> → <desk>: psst",
        "\(Self.time(4))  <desk> → <alice> (delivered): what?", "\(Self.time(5))  <bob#0b0b>: I am here too",
      ])
    #expect(!stand.calls.contains { $0.hasPrefix("MarkRead") })
  }

  @Test("`mesh log` marks messages that were sent or received over the uplink")
  @LoopActor
  func uplink() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.messages = [(1, MeshStand.own), (2, MeshStand.alice)].map {
      MeshMessageView(
        number: $0.0, time: UInt64($0.0) * 1000, conversation: MeshStand.alice, sender: $0.1,
        nickname: $0.1 == MeshStand.own ? "desk" : "alice",
        text: "far", state: $0.1 == MeshStand.own ? .sent : .seen, isByUplink: true)
    }
    #expect(
      await stand.run("log").output.split(separator: "\n") == [
        "\(Self.time(1))  <desk> → <alice> (sent, uplink): far", "\(Self.time(2))  <alice> → <desk> (uplink): far",
      ])
  }

  @Test("`mesh log --limit` prints the last messages across pages, and --with those of one conversation")
  @LoopActor
  func chosen() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.messages = Self.some
    stand.pageSize = 2
    func texts(_ words: String...) async -> [String] {
      let call = await ToolCall.run(["mesh", "log", "--json", "--bus", stand.bus.address] + words)
      return call.output.split(separator: "\n").map { line in
        (try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])?["text"] as? String ?? "?"
      }
    }
    #expect(await texts() == ["hello", "hi", "psst", "what?", "I am here too"])
    #expect(await texts("--limit", "2") == ["what?", "I am here too"])
    #expect(await texts("-n", "0") == [])
    #expect(await texts("--with", "alice") == ["psst", "what?"])
    #expect(await texts("--with", MeshStand.alice, "-n", "1") == ["what?"])
    #expect(await texts("--with", "bob#0b0b") == [])
  }

  @Test("`mesh log --json` prints each message with its sender's name and every field of the service")
  @LoopActor
  func json() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.messages = [Self.message(9, MeshStand.bob, "a\u{1B}\n\u{202E}b", to: MeshStand.bob, .unread)]
    #expect(
      await stand.run("log", "--json").output
        == #"{"message":9,"time":9000,"conversation":"0000000000000b0b","sender":"0000000000000b0b","name":"bob#0b0b","#
        + #""nickname":"bob","own":false,"text":"a\u001b\n\u202eb","state":"unread","way":"mesh"}"# + "\n")
  }

  @Test("`mesh log --seen` marks only the last unread message of each printed conversation")
  @LoopActor
  func seen() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.messages = Self.some
    _ = await stand.run("log", "--seen")
    #expect(stand.calls.filter { $0.hasPrefix("MarkRead") } == ["MarkRead 3", "MarkRead 5"])
    _ = await stand.run("log", "--seen", "--with", "alice")
    #expect(stand.calls.filter { $0.hasPrefix("MarkRead") }.dropFirst(2) == ["MarkRead 3"])
  }

  @Test("`mesh log --follow` prints new messages and changed states, and ends when the service stops")
  @LoopActor
  func follow() async throws {
    let stand = try await MeshStand()
    defer { stand.close() }
    stand.messages = Self.some
    let isDone = Mailbox<ToolCall>()
    Task { @LoopActor in isDone.put(await stand.run("log", "--follow", "-n", "2")) }
    func listed(_ count: Int) async throws {
      while stand.calls.filter({ $0.hasPrefix("ListMessages") }).count < count { try await Self.turn() }
    }
    // Pages are read until one is empty.
    try await listed(2)
    stand.hear(Self.message(6, MeshStand.alice, "news", .unread))
    try await listed(4)
    stand.change(4, "read")
    stand.change(77, "failed")
    try await listed(5)
    stand.hear(Self.message(7, MeshStand.other, "last", .unread))
    try await listed(7)
    stand.close()
    let call = try await isDone.next()
    #expect(call.code == .notRunning)
    #expect(
      call.output.split(separator: "\n") == [
        "\(Self.time(4))  <desk> → <alice> (delivered): what?", "\(Self.time(5))  <bob#0b0b>: I am here too",
        "\(Self.time(6))  <alice>: news", "  message 4: read", "\(Self.time(7))  <Bob#1234>: last",
      ])
  }

  /// Runs the pending calls of the loop.
  @LoopActor
  private static func turn() async throws {
    let turned = Mailbox<Bool>()
    let timer = EventLoop.shared.schedule(after: .milliseconds(10)) { turned.put(true) }
    defer { timer.cancel() }
    _ = try await turned.next()
  }

  @Test(
    "A text in `mesh log` cannot imitate another message, move the cursor or reverse the text direction",
    arguments: [nil, 40])
  func hostile(width: Int?) {
    let fake = "\(Self.time(9))  bob: I agree"
    let text = "x\u{1B}[2J\n\(fake)\r\n\u{202E}\(String(repeating: "word ", count: 20))\n\n" + fake
    let names = MeshNameIndex([MeshStand.alice].map { MeshPeerView(id: $0) })
    let line = LogLine(own: MeshStand.own, names: names, width: width)
    let shown = line.text(Self.message(1, MeshStand.alice, text, nickname: "al\nice"))
    let lines = shown.split(separator: "\n", omittingEmptySubsequences: false)
    #expect(lines.dropFirst().allSatisfy { $0.hasPrefix("    ") } && lines.count >= 5)
    #expect(!shown.unicodeScalars.contains { ($0.value < 32 && $0 != "\n") || $0 == "\u{202E}" })
    if let width { for line in lines { #expect(DisplayText.width(String(line)) <= width) } }
  }

  @Test("A wrapped text in `mesh log` is printed completely, with every word once")
  func whole() {
    let words = (1...500).map { "word\($0)" }
    let shown = MeshText.paragraph("head: ", words.joined(separator: " "), width: 40)
    #expect(shown.split(whereSeparator: \.isWhitespace).map(String.init) == ["head:"] + words)
    let one = MeshText.paragraph("head: ", String(repeating: "漢", count: 200), width: 21)
    #expect(one.filter { $0 == "漢" }.count == 200)
    for line in one.split(separator: "\n") { #expect(DisplayText.width(String(line)) <= 21) }
    #expect(MeshText.paragraph("head: ", "", width: nil) == "head: ")
    #expect(MeshText.paragraph("head: ", "a\tb", width: nil) == "head: a b")
  }
}
