import Testing

@testable import Terminal

@Suite struct TextTableTests {
  private static var table: TextTable {
    var table = TextTable([.init("TRANSFER"), .init("BYTES", .right), .init("WALLET")])
    table.append(["7", "12345", "Käthe"])
    table.append(["8", "9", "受信"])
    table.append(["9"])
    return table
  }

  @Test("Table columns are aligned by display width, without trailing spaces")
  func alignment() {
    #expect(
      Self.table.text() == """
        TRANSFER  BYTES  WALLET
        7         12345  Käthe
        8             9  受信
        9

        """)
  }

  @Test("In a narrow terminal table lines are cut, and only the header is coloured")
  func narrow() {
    #expect(Self.table.text(width: 19) == "TRANSFER  BYTES  W…\n7         12345  K…\n8             9  …\n9\n")
    #expect(Self.table.text(colour: true).hasPrefix("\u{1B}[1mTRANSFER  BYTES  WALLET\u{1B}[0m\n7 "))
  }

  @Test("Control characters from a peer neither break a table nor reach the terminal")
  func hostileCells() {
    var table = TextTable([.init("NAME"), .init("N")])
    table.append(["a\n\u{1B}[2J\u{202E}", "1", "beyond the header"])
    #expect(table.text() == "NAME    N\na\u{FFFD}[2J\u{FFFD}  1\n")
  }

  @Test(
    "The width of a table cell is counted in terminal columns, not in characters",
    arguments: [
      ("", 0), ("abc", 3), ("Käthe", 5), ("Ka\u{308}the", 5), ("受信", 4), ("한글", 4), ("ｆｕｌｌ", 8), ("😀", 2), ("👩‍👩‍👧", 2),
      ("❤️", 2),
    ])
  func width(text: String, expected: Int) {
    #expect(DisplayText.width(text) == expected)
    #expect(DisplayText.cut(text, to: expected) == text)
    for width in 0...10 { #expect(DisplayText.width(DisplayText.cut(text, to: width)) <= width) }
  }
}
