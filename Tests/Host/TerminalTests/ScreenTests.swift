import TestSupport
import Testing

@testable import Terminal

@Suite("The verifier's screen with its QR code", .serialized) struct ScreenTests {
  private static func invitation(_ name: String) -> String {
    "OPENID4VP://connect?name=\(name)&key=8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
  }

  private static func terminal(_ columns: Int, _ rows: Int, colour: Bool = true) -> TerminalInfo {
    TerminalInfo(isTerminal: true, columns: columns, rows: rows) { $0 == "NO_COLOR" && !colour ? "1" : nil }
  }

  private static let note = "Any key: one more comes. q: the end."

  private static func screen(_ name: String) throws -> Screen {
    var screen = Screen()
    screen.code = try QRCode(invitation(name))
    screen.invitation = "Scan this code."
    screen.heading = ["The radio is degraded."]
    screen.bars = (1...4).map { ProgressBar(label: "peer\($0)", done: $0 * 1000, total: 10_000, rate: 100) }
    screen.news = (1...30).map { "The message with the number \($0)." }
    screen.note = note
    return screen
  }

  /// The rows that the terminal shows; the cursor is at the beginning of the row below.
  private static func grid(_ screen: Screen, _ terminal: TerminalInfo) throws -> TerminalGrid {
    var grid = TerminalGrid(columns: terminal.width, rows: terminal.height)
    try grid.write(screen.lines(on: terminal).map { $0 + "\n" }.joined())
    return grid
  }

  /// The words in one line, without the drawing.
  private static func words(_ grid: TerminalGrid) -> String {
    grid.text.map { String($0.filter { !"█▀▄".contains($0) }) }.joined(separator: " ").split(separator: " ")
      .joined(separator: " ")
  }

  @Test(
    "The QR code can be read from an image of the terminal, and its instruction is shown",
    arguments: [(80, 24), (60, 24), (200, 50), (45, 40)], [true, false])
  func read(size: (Int, Int), colour: Bool) throws {
    for name in ["K", "OVPMOSIP", "FourteenLetter"] {
      let grid = try Self.grid(Self.screen(name), Self.terminal(size.0, size.1, colour: colour))
      #expect(try CodeReader.read(grid.picture) == [Self.invitation(name)], "\(name) \(size)")
      #expect(Self.words(grid).hasSuffix(Self.note), "\(Self.words(grid))")
    }
  }

  @Test("The QR code of an invitation of version 5 needs 23 of 24 rows, including the quiet zone")
  func smallest() throws {
    let screen = try Self.screen("OVPMOSIP")
    #expect(screen.code?.size == 37)
    let lines = screen.lines(on: Self.terminal(80, 24, colour: false))
    #expect(lines.count == 23)
    #expect(lines.first == String(repeating: "█", count: 45) + "  Scan this code.")
  }

  @Test("A large terminal shows the QR code at double size")
  func large() throws {
    let lines = try Self.screen("OVPMOSIP").lines(on: Self.terminal(200, 50, colour: false))
    #expect(lines.first?.hasPrefix(String(repeating: "█", count: 90) + "  ") == true && lines.count == 45)
  }

  @Test("If the QR code does not fit, the screen shows the required size and does not ask to scan")
  func tooSmall() throws {
    let screen = try Self.screen("OVPMOSIP")
    let grid = try Self.grid(screen, Self.terminal(60, 20))
    #expect(try CodeReader.read(grid.picture).isEmpty)
    let words = Self.words(grid)
    #expect(words.contains("it needs 55 columns and 22 rows, this terminal has 60 and 20."), "\(words)")
    #expect(!words.contains("Scan this code") && words.contains("The radio is degraded."), "\(words)")
    #expect(words.hasSuffix(Self.note))
    // The requested size suffices, and a row or a column less does not.
    #expect(try CodeReader.read(Self.grid(screen, Self.terminal(55, 22)).picture).count == 1)
    #expect(try CodeReader.read(Self.grid(screen, Self.terminal(54, 22)).picture).isEmpty)
    #expect(try CodeReader.read(Self.grid(screen, Self.terminal(55, 21)).picture).isEmpty)
  }

  @Test("Without an installed QR reader the test of the screen fails at once and names the missing package")
  func noReader() throws {
    let error = caught(Program.NotStarted.self) { try CodeReader.read([], with: "no-such-reader") }
    #expect(error?.description.hasSuffix("apt install zbar-tools") == true)
  }

  @Test("The verifier's screen fits every terminal size, and its note stays visible")
  func bounds() throws {
    let screen = try Self.screen("OVPMOSIP")
    for columns in [1, 5, 12, 44, 45, 57, 80, 116, 200] {
      for rows in [1, 2, 5, 22, 23, 24, 46, 47] {
        let terminal = Self.terminal(columns, rows, colour: false)
        let lines = screen.lines(on: terminal)
        #expect(lines.count <= max(1, rows - 1), "\(columns) \(rows)")
        #expect(lines.allSatisfy { $0.count <= columns }, "\(columns) \(rows)")
        if columns >= 12, rows >= 5 {
          let words = Self.words(try Self.grid(screen, terminal))
          #expect(words.hasSuffix(Self.note), "\(columns) \(rows): \(words)")
        }
      }
    }
  }

  @Test("The screen shows running transfers first, then the latest events, and counts hidden lines")
  func priorities() throws {
    var screen = try Self.screen("OVPMOSIP")
    let grid = try Self.grid(screen, Self.terminal(80, 24))
    let words = Self.words(grid)
    for text in ["Scan this code.", "peer1", "10%", "peer4", "40%", "the number 30."] {
      #expect(words.contains(text), "\(text)")
    }
    #expect(!words.contains("the number 1."))
    screen.bars = (1...40).map { ProgressBar(label: "peer\($0)", done: 1) }
    let crowded = Self.words(try Self.grid(screen, Self.terminal(80, 24)))
    #expect(crowded.contains("peer1") && crowded.contains("more") && crowded.hasSuffix(Self.note))
  }

  @Test("Control characters are not drawn on the verifier's screen")
  func harmless() throws {
    var screen = Screen()
    screen.heading = ["a\u{1B}[2Jb"]
    screen.news = ["c\nd\u{7}e"]
    screen.note = "f\u{202E}g"
    let text = screen.lines(on: Self.terminal(80, 24)).joined()
    #expect(text.unicodeScalars.allSatisfy { $0 == "\u{FFFD}" || $0.properties.generalCategory != .control })
    #expect(!text.contains("\u{202E}"))
  }
}
