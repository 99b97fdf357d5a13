import Common
import DBus
import Testing
import Tool

@testable import MeshCommands

@Suite("`earshot mesh uplink`")
struct UplinkViewTests {
  private static let properties: [String: DBusValue] = [
    "State": .string("connecting"), "Reason": .string("No relay is reached."), "PublicKey": .string("npub1abc"),
    "Waiting": .uint32(2),
    "Relays": .array(
      of: "(ssss)",
      [
        .structure([.string("wss://a.example"), .string("messages"), .string("waiting"), .string("It\u{1B}[2J ended.")]
        ),
        .structure([.string("wss://b.example"), .string("channel u4pru"), .string("live"), .string("Old.")]),
      ]),
    "Counters": .tallies([Tally("Messages", 3), Tally("Floods", 0), Tally("New", 1)]),
  ]

  @Test("`mesh uplink` shows state, reason, key, waiting messages and relays, without control characters")
  func text() {
    let text = UplinkView(Self.properties).text(width: 80)
    #expect(
      text.split(separator: "\n").prefix(5) == [
        "state    connecting", "reason   No relay is reached.", "key      npub1abc",
        "waiting  2 messages and receipts", "relays",
      ])
    #expect(text.hasSuffix("counters\n  3  Messages  private messages and receipts received\n  1  New       \n"))
    #expect(text.contains("  wss://b.example (channel u4pru)  live\n"))
    #expect(text.contains("  wss://a.example  waiting: It") && !text.contains("\u{1B}"))
  }

  @Test("One message that waits is written in the singular, and no counter's meaning is wider than the terminal")
  func singular() {
    let counters = UplinkCounters.table.meanings.keys.sorted().map { Tally($0, 1) }
    let text = UplinkView(["Waiting": .uint32(1), "Counters": .tallies(counters)]).text(width: 80)
    #expect(text.hasPrefix("waiting  1 message or receipt\ncounters\n"))
    #expect(text.split(separator: "\n").allSatisfy { $0.count <= 80 })
  }

  @Test("`mesh uplink` shows an empty state if its D-Bus properties are missing or malformed")
  func malformed() {
    let view = UplinkView(["State": .uint32(1), "Relays": .array(of: "s", [.string("x")])])
    #expect(view.state == "" && view.relays.isEmpty && view.waiting == 0)
  }
}
