import Glibc
import Loop
import Terminal
import TestSupport
import Testing

@testable import FullScreen

/// ncurses has one screen per process, so the tests are serialized.
@Suite("Full-screen terminal output", .serialized, .enabled(if: access("/dev/ptmx", R_OK | W_OK) == 0))
struct FullScreenTests {
  init() { EventLoop.shared.runInBackground() }

  @LoopActor
  private func open(_ terminal: PseudoTerminal, _ events: Mailbox<FullScreen.Event> = Mailbox()) throws -> FullScreen {
    return try FullScreen(input: terminal.end, output: terminal.end, name: "xterm-256color") { events.put($0) }
  }

  @Test(
    "Text is drawn in the intended columns in terminals with either rule for character widths",
    arguments: TerminalGrid.Measure.allCases)
  @LoopActor
  func columns(measure: TerminalGrid.Measure) async throws {
    let terminal = try PseudoTerminal(columns: 30, rows: 12, measure: measure)
    defer { terminal.close() }
    let screen = try open(terminal)
    let texts = [
      "abc", "Käthe", "Ka\u{308}the", "受信", "한글", "😀", "👩‍👩‍👧", "❤️", "👍🏽", "🇩🇪", "नमस्ते",
    ].map(DisplayText.settled)
    let rows = texts.map { text in
      [
        Frame.Run(text, Style(.green, bold: true)),
        Frame.Run(String(repeating: ".", count: 20 - DisplayText.width(text))), Frame.Run("|"),
      ]
    }
    screen.draw(Frame(rows: rows + [[Frame.Run("end")]], cursor: Frame.Place(row: 3, column: 4)))
    try await terminal.await { $0.grid.text.last == "end" && ($0.grid.row, $0.grid.column) == (3, 4) }
    #expect(terminal.error == nil)
    for (row, text) in texts.enumerated() {
      #expect(terminal.grid.text[row].hasPrefix(text), "\(terminal.grid.text[row])")
      #expect(terminal.grid.column(of: "|", row: row) == 20, "\(text)")
    }
    // On the second drawing only changes are sent.
    screen.draw(Frame(rows: rows.reversed().map { [Frame.Run("受")] + $0 }))
    try await terminal.await { shown in
      !shown.grid.isCursorShown && texts.indices.allSatisfy { shown.grid.column(of: "|", row: $0) == 22 }
    }
    #expect(terminal.error == nil)
    screen.close()
    try await terminal.await { !$0.grid.isTaken }
  }

  @Test("Closing the full-screen output restores the terminal")
  @LoopActor
  func restored() async throws {
    let terminal = try PseudoTerminal(columns: 20, rows: 5)
    defer { terminal.close() }
    _ = write(terminal.end, "before", 6)
    try await terminal.await { $0.words == "before" }
    #expect(terminal.isCooked)
    let screen = try open(terminal)
    screen.draw(Frame(rows: [[Frame.Run("drawn")]]))
    try await terminal.await { $0.words == "drawn" }
    #expect(!terminal.isCooked && terminal.grid.isTaken && terminal.grid.takesPastes)
    #expect(throws: FullScreenError.self) { try open(terminal) }
    screen.close()
    screen.close()
    screen.draw(Frame(rows: [[Frame.Run("late")]]))
    try await terminal.await { $0.words == "before" && $0.grid.isCursorShown && !$0.grid.takesPastes }
    #expect(terminal.isCooked && terminal.error == nil)
  }

  @Test("Terminal input is decoded to characters, arrow keys, page keys, Alt keys and whole pastes")
  @LoopActor
  func keys() async throws {
    let terminal = try PseudoTerminal(columns: 20, rows: 5)
    defer { terminal.close() }
    let events = Mailbox<FullScreen.Event>()
    let screen = try open(terminal, events)
    defer { screen.close() }
    terminal.type(
      "é漢👍\u{3}\t\r\u{7F}\u{1B}OA\u{1B}[5~\u{1B}[6~\u{1B}OH\u{1B}[3~\u{1B}[Z\u{1B}[1;3B\u{1B}n\u{1B}[200~a\rb\u{1B}[201~x"
    )
    let expected: [Key] = [
      .character("é"), .character("漢"), .character("👍"), .control("c"), .tab, .enter, .backspace, .up, .pageUp,
      .pageDown,
      .home, .delete, .backTab, .altDown, .alt("n"), .paste("a\nb"), .character("x"),
    ]
    for key in expected {
      let event = try await events.next()
      #expect(event == .key(key))
    }
  }

  @Test("A change of the terminal's size is reported, and the screen is drawn again")
  @LoopActor
  func resized() async throws {
    let terminal = try PseudoTerminal(columns: 20, rows: 5)
    defer { terminal.close() }
    let events = Mailbox<FullScreen.Event>()
    let screen = try open(terminal, events)
    defer { screen.close() }
    #expect((screen.columns, screen.rows) == (20, 5))
    screen.draw(Frame(rows: [[Frame.Run("small")]]))
    try await terminal.await { $0.words == "small" }
    terminal.resize(columns: 40, rows: 10)
    // Sent to this thread, because other threads of the process do not block the signal.
    pthread_kill(pthread_self(), SIGWINCH)
    let event = try await events.next()
    #expect(event == .resized && (screen.columns, screen.rows) == (40, 10))
    screen.draw(Frame(rows: Array(repeating: [], count: 9) + [[Frame.Run(String(repeating: "x", count: 45))]]))
    try await terminal.await { $0.grid.text.last == String(repeating: "x", count: 40) }
    #expect(terminal.error == nil)
  }

  @Test("A terminal of unknown type is refused for full-screen output")
  @LoopActor
  func unknown() throws {
    let terminal = try PseudoTerminal(columns: 20, rows: 5)
    defer { terminal.close() }
    #expect(throws: FullScreenError.self) {
      try FullScreen(input: terminal.end, output: terminal.end, name: "of-no-kind") { _ in }
    }
    #expect(terminal.isCooked)
  }
}
