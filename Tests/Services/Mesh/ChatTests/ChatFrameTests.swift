import FullScreen
import MeshViews
import Testing

@testable import Chat
@testable import Terminal

@Suite("The screen of `earshot chat`")
struct ChatFrameTests {
  @Test("The chat screen of 80 by 24 shows title, peer list, messages, status and input in their positions")
  func screen() {
    var sitting = Sitting()
    sitting.hear(Sitting.bob, "Is somebody at the fountain?")
    sitting.hear(Sitting.anna, "I am, with tea.", minutes: 1)
    sitting.hear(Sitting.carol, "psst", to: Sitting.carol, minutes: 2)
    sitting.type("Come")
    var expected = [String](repeating: "                   │", count: 24)
    expected[0] = " # everybody · 2 near" + String(repeating: " ", count: 45) + "anna · 1 link"
    expected[1] = "# everybody        │"
    expected[2] = "█ bob              │"
    expected[3] = "2 carol           1│"
    expected[19] = "                   │" + Self.rule("Sunday 22 November 2026", 60)
    expected[20] = "                   │14:02 <bob>: Is somebody at the fountain?"
    expected[21] = "                   │14:03 <anna>: I am, with tea. ✓"
    expected[22] = " Ctrl-N, Ctrl-P: conversations   PgUp, PgDn: older   Tab: completes   /help"
    expected[23] = "› Come"
    // The title ends with a space.
    #expect(sitting.rows == expected, "\n\(sitting.rows.joined(separator: "\n"))")
    #expect(sitting.model.frame.cursor == Frame.Place(row: 23, column: 6))
  }

  private static func rule(_ text: String, _ width: Int) -> String {
    let room = width - text.count - 2
    let left = String(repeating: "─", count: room / 2)
    return "\(left) \(text) " + String(repeating: "─", count: room - room / 2)
  }

  @Test(
    "At every terminal size all rows of the chat fit the width, and show no control characters of peers",
    arguments: [40, 59, 60, 80, 81, 200])
  func everySize(columns: Int) {
    let texts = [
      "短い 受信 テキスト" + String(repeating: "漢", count: 100), String(repeating: "👩‍👩‍👧🇩🇪👍🏽❤️", count: 40),
      "e\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}" + String(repeating: "\u{301}", count: 300),
      "\u{202E}drowssap\u{1B}[2J\u{7}",
      String(repeating: "नमस्ते ", count: 30), "\u{301}first", "한국어 \u{1100}\u{1161}\u{11A8}", "a\r\nb\tc\u{2028}d",
      String(repeating: "\n", count: 500),
      "\u{1FAE8}\u{10FFFF}\u{E000}",
    ]
    for rows in [8, 24, 50] {
      var sitting = Sitting(columns: columns, rows: rows)
      for (number, text) in texts.enumerated() {
        sitting.hear(Sitting.bob, text, nickname: number % 2 == 0 ? text : "bob")
        sitting.hear(Sitting.anna, text, to: Sitting.bob, state: .read)
        sitting.feed(.peers([Sitting.peer(Sitting.bob, text)]))
        sitting.press(.paste(text))
        for _ in 0..<2 {
          let frame = sitting.model.frame
          #expect(frame.rows.count == rows)
          for row in frame.rows { #expect(row.width <= columns, "\(row)") }
          #expect(frame.cursor.map { $0.column < columns } == true)
          let scalars = frame.text.joined().unicodeScalars
          #expect(!scalars.contains { $0.value < 32 || (0x7F..<0xA0).contains($0.value) || $0.value == 0x202E })
          sitting.press(.control("n"))
        }
      }
    }
  }

  @Test("In a terminal below 40 by 8 the chat shows the required size, and marks no message as read")
  func tooSmall() {
    var sitting = Sitting(columns: 39, rows: 24)
    sitting.hear(Sitting.bob, "x")
    #expect(sitting.rows == ["Too small: 40×8 is needed, this is", "39×24."])
    #expect(sitting.taken() == [])
    sitting.feed(.resized(columns: 40, rows: 7))
    #expect(sitting.rows.first?.hasPrefix("Too small") == true)
    sitting.feed(.resized(columns: 40, rows: 8))
    #expect(sitting.messages.last == "14:02 <bob>: x")
    #expect(sitting.taken() == [.markRead(1)])
    sitting.feed(.resized(columns: 3, rows: 2))
    #expect(sitting.rows.count <= 2)
    sitting.feed(.resized(columns: 0, rows: 0))
    #expect(sitting.rows == [])
  }

  @Test("The chat shows the delivery state of an own message without the help of colours")
  func ticks() {
    let states: [(MeshMessageView.State, String)] = [
      (.waiting, " ·"), (.sent, " ✓"), (.delivered, " ✓✓"), (.read, " ✓✓ read"), (.failed, " ✗ failed"), (.unknown, ""),
    ]
    var sitting = Sitting()
    sitting.enter("/msg bob")
    let number = sitting.hear(Sitting.anna, "Tea?", to: Sitting.bob, state: .waiting)
    for (state, tick) in states {
      sitting.feed(.stateChanged(message: number, state))
      #expect(sitting.messages.last == "14:02 <anna>: Tea?" + tick)
    }
    sitting.feed(.stateChanged(message: number, .delivered))
    let delivered = sitting.style(of: "✓✓")
    sitting.feed(.stateChanged(message: number, .read))
    #expect(sitting.style(of: "✓✓ read") != delivered)
    // Where the text fills the row, the delivery state has a row of its own.
    sitting.hear(Sitting.anna, String(repeating: "x", count: 46), to: Sitting.bob, state: .read)
    #expect(sitting.messages.suffix(2) == ["14:02 <anna>: " + String(repeating: "x", count: 46), "      ✓✓ read"])
  }

  @Test("The chat marks a message that was sent or received over the uplink")
  func uplink() {
    var sitting = Sitting()
    sitting.enter("/msg bob")
    let number = sitting.hear(Sitting.anna, "Tea?", to: Sitting.bob, state: .sent)
    sitting.feed(.wentByUplink(message: number))
    #expect(sitting.messages.last == "14:02 <anna>: Tea? ✓ uplink")
    sitting.hear(Sitting.bob, "Yes.", to: Sitting.bob, isByUplink: true)
    #expect(sitting.messages.last == "14:02 <bob>: Yes. uplink")
  }

  @Test("In the chat a peer's text with line breaks cannot look like a message of another peer")
  func forged() {
    var sitting = Sitting()
    sitting.hear(Sitting.bob, "hi\n14:03 carol: I owe bob money\r\n\n")
    #expect(sitting.messages.suffix(2) == ["14:02 <bob>: hi", "      14:03 carol: I owe bob money"])
    sitting.hear(Sitting.bob, "x", nickname: "carol")
    #expect(sitting.messages.last == "14:02 <carol#11bb>: x")
    sitting.hear("33333333333333dd", "y", nickname: "carol#22cc")
    #expect(sitting.messages.last == "14:02 <carol#22cc#33dd>: y")
  }

  @Test("The chat shows peers with equal nicknames with four digits in list, title and messages")
  func namesakes() {
    let long = String(repeating: "bartholomew", count: 4)
    var sitting = Sitting(peers: [
      Sitting.peer(Sitting.bob, "bob"), Sitting.peer(Sitting.carol, "BOB"), Sitting.peer("33333333333333dd", long),
      Sitting.peer("44444444444444ee", long), Sitting.peer("55555555555555ff", "anna"),
    ])
    let list = sitting.rows.map { String($0.prefix(19)) }
    #expect(list[2...4] == ["• anna#55ff        ", "• barthol…#33dd    ", "• barthol…#44ee    "])
    #expect(list[5...6] == ["• bob#11bb         ", "• BOB#22cc         "])
    sitting.enter("/msg bob#22cc")
    #expect(sitting.rows[0].hasPrefix(" <BOB#22cc> · neighbour"))
    sitting.hear(Sitting.carol, "hi", nickname: "BOB", to: Sitting.carol)
    #expect(sitting.messages.last == "14:02 <BOB#22cc>: hi")
  }

  @Test("The peer list shows signal, hops, marks and unread counts, and no absent unknown peer")
  func list() {
    func peer(_ digit: Int, _ rssi: Int?, hops: Int = 1) -> MeshPeerView {
      Sitting.peer("000000000000000\(digit)", "p\(digit)", hops: hops, rssi: rssi)
    }
    var peers = [
      peer(1, -59), peer(2, -70), peer(3, -80), peer(4, -95), peer(5, nil), peer(6, nil, hops: 3),
      peer(7, nil, hops: 12), peer(8, nil, hops: 0), peer(9, nil, hops: 0),
    ]
    peers[0].isVerified = true
    peers[1].isFavourite = true
    peers[2].isBlocked = true
    peers[8].isFavourite = true
    var sitting = Sitting(peers: peers)
    for _ in 0..<120 { sitting.hear("0000000000000004", "x", nickname: "p4", to: "0000000000000004") }
    let list = sitting.rows.dropFirst().prefix(9).map { String($0.prefix(19)) }
    #expect(
      list == [
        "# everybody        ", "█ p1           ✓   ", "▆ p2           ★   ",
        "▂ p4            99+",
        "• p5               ", "3 p6               ", "+ p7               ", "  p9           ★   ",
        "▄ p3           ×   ",
      ], "\(list)")
  }

  @Test("A peer list longer than the terminal shows the open conversation and counts the hidden peers")
  func longList() {
    let peers = (0..<40).map { Sitting.peer("00000000000000\(10 + $0)", "p\(10 + $0)") }
    var sitting = Sitting(peers: peers)
    #expect(sitting.rows[21].hasPrefix("↓ 21 more          │"))
    sitting.hear("0000000000000045", "x", nickname: "p45", to: "0000000000000045")
    #expect(sitting.rows[21].hasPrefix("↓ 21 more, 1 new   │"))
    for _ in 0..<30 {
      sitting.press(.control("n"))
      let name = sitting.rows[0].split(separator: " ")[0].filter { $0 != "<" && $0 != ">" }
      #expect(sitting.rows.dropFirst().contains { $0.prefix(19).contains(name) })
    }
    sitting.press(.control("g"))
    #expect(sitting.rows[0].hasPrefix(" <p45"))
    sitting.press(.control("g"))
    #expect(sitting.status.contains("Nothing is unread."))
  }

  @Test("In a terminal of 50 columns, which has no peer list, the status line names unread conversations")
  func narrow() {
    var sitting = Sitting(columns: 50, rows: 10)
    sitting.hear(Sitting.carol, "psst", to: Sitting.carol)
    #expect(!sitting.rows.contains { $0.contains("│") })
    #expect(sitting.status == " Unread (Ctrl-G): <carol>")
    sitting.press(.control("g"))
    #expect(sitting.messages.last == "14:02 <carol>: psst")
  }

  @Test("The message area has a line before each day and one before the unread messages")
  func rules() {
    var sitting = Sitting()
    sitting.hear(Sitting.bob, "a", to: Sitting.bob, state: .seen)
    sitting.hear(Sitting.bob, "b", to: Sitting.bob, state: .seen, minutes: 60)
    sitting.hear(Sitting.bob, "c", to: Sitting.bob, minutes: 60 * 24)
    sitting.enter("/msg bob")
    let bare = sitting.messages.map { $0.filter { $0 != "─" } }
    #expect(
      bare == [
        " Sunday 22 November 2026 ", "14:02 <bob>: a", "15:02 <bob>: b", " Monday 23 November 2026 ", " new ",
        "14:02 <bob>: c",
      ])
    sitting.press(.control("n"), .control("p"))
    #expect(!sitting.messages.contains { $0.contains(" new ") })
  }
}
