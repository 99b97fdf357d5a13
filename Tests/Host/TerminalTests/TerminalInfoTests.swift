import Glibc
import Testing

@testable import Terminal

@Suite struct TerminalInfoTests {
  @Test(
    "The output width is the terminal's, else the variable COLUMNS, else 80",
    arguments: [
      (120, "100", 120), (0, "100", 100), (0, nil, 80), (0, "wide", 80), (0, "-1", 80), (0, "0", 80), (0, "99999", 80),
      (65535, nil, 80),
    ] as [(Int, String?, Int)])
  func width(columns: Int, variable: String?, expected: Int) {
    let info = TerminalInfo(isTerminal: true, columns: columns, environment: { $0 == "COLUMNS" ? variable : nil })
    #expect(info.width == expected)
  }

  @Test("The output height is the terminal's, else the variable LINES, else 24")
  func height() {
    for (rows, variable, expected) in [(50, "10", 50), (0, "10", 10), (0, nil, 24), (0, "tall", 24)] {
      let info = TerminalInfo(isTerminal: true, columns: 0, rows: rows) { $0 == "LINES" ? variable : nil }
      #expect(info.height == expected)
    }
  }

  @Test(
    "Output is coloured only on a terminal whose TERM is not `dumb`, and without NO_COLOR",
    arguments: [
      (true, nil, "xterm", true), (true, "", "xterm", true), (true, "1", "xterm", false), (true, nil, "dumb", false),
      (false, nil, "xterm", false), (true, nil, nil, true),
    ] as [(Bool, String?, String?, Bool)])
  func colour(isTerminal: Bool, noColor: String?, term: String?, expected: Bool) {
    let environment = ["NO_COLOR": noColor, "TERM": term].compactMapValues { $0 }
    let info = TerminalInfo(isTerminal: isTerminal, columns: 80, environment: { environment[$0] })
    #expect(info.hasColour == expected)
    #expect(info.isTerminal == isTerminal)
    #expect(info.canRedraw == (isTerminal && term != "dumb"))
  }

  @Test("A pipe is not recognised as a terminal")
  func pipes() throws {
    var ends: [Int32] = [-1, -1]
    try #require(pipe(&ends) == 0)
    defer { for end in ends { close(end) } }
    let info = TerminalInfo.current(ends[1])
    #expect(!info.isTerminal && !info.hasColour)
  }

  @Test("A pseudo terminal is recognised as a terminal", .enabled(if: access("/dev/ptmx", R_OK | W_OK) == 0))
  func pseudoTerminals() throws {
    let master = open("/dev/ptmx", O_RDWR | O_NOCTTY)
    try #require(master >= 0)
    defer { close(master) }
    var size = winsize(ws_row: 10, ws_col: 33, ws_xpixel: 0, ws_ypixel: 0)
    try #require(ioctl(master, UInt(TIOCSWINSZ), &size) == 0)
    #expect(TerminalInfo.current(master).width == 33 && TerminalInfo.current(master).height == 10)
    #expect(TerminalInfo.current(master).isTerminal)
  }
}
