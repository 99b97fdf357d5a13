import Common
import DBus
import FullScreen
import Terminal
import Testing

@testable import Commands

@Suite("The screen of `earshot verifier watch`") struct CounterScreenTests {
  private static let now = Instant.zero.advanced(by: .seconds(100))

  private static func transfer(_ number: Int, deadline: UInt64 = 0) -> WatchedTransfer {
    let path = ObjectPath("/org/earshot/verifier/credential\(number)") ?? "/"
    let properties: [String: DBusValue] = [
      "State": .string("received"), "Live": .bool(deadline > 0), "VerdictDeadline": .uint64(deadline),
      "Size": .uint64(2048),
    ]
    return WatchedTransfer(view: TransferView(path, properties), stage: .told, seen: now)
  }

  private static func path(_ number: Int) -> String { "/org/earshot/verifier/credential\(number)" }

  @Test("Keys select and judge a credential; a remark appears if there is none, and unknown keys show a list of keys")
  func keys() {
    var screen = CounterScreen(note: "", showsCode: true, hasKeys: true)
    #expect(screen.press(.character("a"), at: Self.now) == nil)
    screen.update([1, 2, 3].map { Self.transfer($0) }, at: Self.now)
    #expect(screen.press(.character("a"), at: Self.now) == .judge(path: Self.path(1), .accept))
    for key in [Key.down, .character("j"), .down] { #expect(screen.press(key, at: Self.now) == nil) }
    #expect(screen.press(.character("r"), at: Self.now) == .judge(path: Self.path(3), .reject))
    #expect(screen.press(.up, at: Self.now) == nil)
    #expect(screen.press(.character("A"), at: Self.now) == .judge(path: Self.path(2), .accept))
    #expect(screen.press(.character("x"), at: Self.now) == nil)
    #expect(
      screen.press(.character("q"), at: Self.now) == .leave && screen.press(.control("c"), at: Self.now) == .leave)
  }

  @Test("For 1 s after the screen selected another credential, a verdict key must be pressed twice")
  func jump() {
    var screen = CounterScreen(note: "", showsCode: true, hasKeys: true)
    screen.update([1, 2].map { Self.transfer($0) }, at: Self.now)
    screen.update([Self.transfer(2)], at: Self.now)
    let soon = Self.now.advanced(by: .milliseconds(999))
    #expect(screen.press(.character("a"), at: soon) == nil)
    #expect(screen.press(.character("a"), at: soon) == .judge(path: Self.path(2), .accept))
    screen.update([1, 2].map { Self.transfer($0) }, at: Self.now)
    screen.update([Self.transfer(1)], at: Self.now)
    #expect(
      screen.press(.character("r"), at: Self.now.advanced(by: .seconds(1))) == .judge(path: Self.path(1), .reject))
  }

  @Test("The screen shows the time left for the phone of a waiting credential, and the time of each event")
  func shown() {
    var screen = CounterScreen(note: "A note.", showsCode: true, hasKeys: true)
    let date: UInt64 = 1_900_000_000_000
    screen.update([Self.transfer(1, deadline: date + 23_400), Self.transfer(2)], at: Self.now)
    screen.add(WatchReport(sentence: "Something happened."), date: date)
    let made = screen.screen(WatchModel(WatchOptions()), at: Self.now, date: date)
    #expect(made.list.map(\.text) == ["▸ credential1  24 s left  2.0 KiB", "  credential2  phone left  2.0 KiB"])
    #expect(made.list.first?.look == .selected)
    #expect(made.news.first?.text.hasSuffix(":40 Something happened.") == true)
    for (columns, rows) in [(80, 24), (60, 20), (20, 5)] {
      let drawn = made.rows(on: TerminalInfo(columns: columns, rows: rows, hasColour: true))
      #expect(drawn.count == rows && drawn.allSatisfy { $0.reduce(0) { $0 + DisplayText.width($1.text) } <= columns })
    }
    let last = made.rows(on: TerminalInfo(columns: 80, rows: 24, hasColour: true)).last
    #expect(last?.first?.text == "↑↓ select   a accept   r reject   q quit")
  }
}

@Suite("The table of `earshot transfers`") struct TransferTableTests {
  @Test("The table of transfers has time, expiry, fetched and size, also for restored credentials")
  func columns() {
    let now: UInt64 = 1_900_000_000_000
    let restored = TransferView(
      "/org/earshot/verifier/credential7",
      [
        "State": .string("received"), "Direction": .string("incoming"), "Size": .uint64(2048),
        "BytesTransferred": .uint64(0),
        "ReceivedAt": .uint64(now - 5000), "ExpiresAt": .uint64(now + 3_600_000), "Fetched": .bool(false),
        "Peer": .string("C0:00:00:00:00:02"),
      ])
    let failed = TransferView(
      "/org/earshot/wallet/credential8",
      [
        "State": .string("failed"), "Direction": .string("outgoing"), "StartedAt": .uint64(now - 1000),
        "ErrorCode": .string("TVW_UNK_001"),
      ])
    let text = TransferTable.text([restored, failed], now: now, width: nil, colour: false)
    let lines = text.split(separator: "\n").map { $0.split(separator: " ").joined(separator: " ") }
    #expect(lines[0] == "TRANSFER STATE TIME EXPIRES FETCHED SIZE ERROR PEER")
    #expect(
      lines[1].hasPrefix("credential7 received ") && lines[1].hasSuffix(":35 in 60 min no 2.0 KiB C0:00:00:00:00:02"))
    #expect(lines[2].hasPrefix("wallet/credential8 failed ") && lines[2].hasSuffix(":39 TVW_UNK_001"))
    let narrow = TransferTable.text([restored, failed], now: now, width: 80, colour: false)
    #expect(
      narrow.split(separator: "\n").allSatisfy { $0.count <= 80 && !$0.hasSuffix("…") }
        && narrow.contains("TVW_UNK_001"))
  }

  @Test("A time in the table is shown with its distance from now, in the largest unit that gives 2 or more")
  func moments() {
    let now: UInt64 = 1_900_000_000_000
    #expect(Moment.full(0, now: now) == "-" && Moment.short(0, now: now).isEmpty)
    #expect(Moment.full(now - 720_000, now: now).hasSuffix(" (12 min ago)"))
    #expect(Moment.full(now + 45_000, now: now).hasSuffix(" (in 45 s)"))
    #expect(Moment.left(until: now + 82_800_000, now: now) == "in 23 h" && Moment.left(until: now, now: now) == "now")
    #expect(Moment.short(now - 400 * 86_400_000, now: now).contains("-"))
  }
}
