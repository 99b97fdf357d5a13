import Testing

@testable import Terminal

@Suite struct QRCodeTests {
  private static func rows(_ code: QRCode) -> [String] {
    (0..<code.size).map { row in
      (0..<code.size).map { code.isDark(column: $0, row: row) ? "#" : "." }.joined()
    }
  }

  private static let invitation =
    "OPENID4VP://connect?name=OVPMOSIP&key=8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"

  @Test(
    "A QR code has the smallest version that can encode the text at error correction level L",
    arguments: [
      (1, 21), (17, 21), (18, 25), (32, 25), (33, 29), (53, 29), (54, 33), (106, 37), (107, 41), (2953, 177),
    ])
  func size(length: Int, expected: Int) throws {
    #expect(try QRCode(String(repeating: "a", count: length)).size == expected)
  }

  @Test(
    "A text that cannot be encoded as a QR code gives a named error",
    arguments: [("", "empty"), ("a\0b", "containsNUL"), (String(repeating: "a", count: 2954), "tooLong")])
  func errors(text: String, code: String) {
    do throws(QRCodeError) {
      _ = try QRCode(text)
      Issue.record("encoded")
    } catch {
      #expect(error.code == code)
      #expect(error.sentence.hasSuffix("."))
    }
  }

  @Test("Three corners of a QR code have finder patterns, with timing patterns between them")
  func patterns() throws {
    let finder = [
      "#######.", "#.....#.", "#.###.#.", "#.###.#.", "#.###.#.", "#.....#.", "#######.", "........",
    ]
    for text in ["HELLO", Self.invitation] {
      let rows = Self.rows(try QRCode(text))
      #expect(rows.prefix(8).map { String($0.prefix(8)) } == finder)
      #expect(rows.prefix(8).map { String($0.suffix(8).reversed()) } == finder)
      #expect(rows.suffix(8).reversed().map { String($0.prefix(8)) } == finder)
      let timing = rows[6].dropFirst(8).dropLast(8)
      #expect(timing.enumerated().allSatisfy { ($0.offset % 2 == 0) == ($0.element == "#") })
    }
  }

  @Test("The QR code of a sample text equals the expected code, module by module")
  func known() throws {
    #expect(
      Self.rows(try QRCode("HELLO")) == [
        "#######..#.##.#######",
        "#.....#.#...#.#.....#",
        "#.###.#..#..#.#.###.#",
        "#.###.#.......#.###.#",
        "#.###.#.#..##.#.###.#",
        "#.....#..#.#..#.....#",
        "#######.#.#.#.#######",
        ".....................",
        "#.#.#.#..##.#...#..#.",
        "##..##..##.#.#.#....#",
        "####.#######.###.#...",
        "####.#.#.#.###.#####.",
        "..##.#####.#.###..#.#",
        "........#.#...#...#.#",
        "#######..##.#...#.#..",
        "#.....#..##...#...###",
        "#.###.#.##..#.#.#.#.#",
        "#.###.#....#.#.#.#.#.",
        "#.###.#.####.###..#.#",
        "#.....#...####.###.##",
        "#######.##.#.###..#.#",
      ])
  }

  @Test(
    "The terminal drawing of a QR code contains each module and the quiet zone",
    arguments: [(false, false), (true, false), (false, true), (true, true)])
  func drawing(inverted: Bool, colour: Bool) throws {
    let code = try QRCode(Self.invitation)
    let glyphIsDark = colour || inverted
    for quietZone in [0, 2, 4] {
      let side = code.size + 2 * quietZone
      var lines = code.halfBlocks(quietZone: quietZone, inverted: inverted, colour: colour).split(separator: "\n")
      #expect(lines.count == (side + 1) / 2)
      if colour {
        let begin = inverted ? "\u{1B}[38;5;231;48;5;16m" : "\u{1B}[38;5;16;48;5;231m"
        #expect(lines.allSatisfy { $0.hasPrefix(begin) && $0.hasSuffix("\u{1B}[0m") })
        lines = lines.map { $0.dropFirst(begin.count).dropLast(4) }
      }
      for (index, line) in lines.enumerated() {
        #expect(line.count == side)
        for (offset, block) in line.enumerated() {
          let column = offset - quietZone
          let row = index * 2 - quietZone
          let isUpperDark = (block == "█" || block == "▀") == glyphIsDark
          #expect(isUpperDark == code.isDark(column: column, row: row))
          if row + 1 == code.size + quietZone { continue }
          let isLowerDark = (block == "█" || block == "▄") == glyphIsDark
          #expect(isLowerDark == code.isDark(column: column, row: row + 1))
        }
      }
    }
  }

  @Test("In a narrow terminal a QR code has a narrow quiet zone, and in a very narrow one it is not drawn")
  func fitting() throws {
    let code = try QRCode(Self.invitation)
    #expect(code.size == 37)
    let widths = [80: 45, 45: 45, 44: 41, 41: 41, 40: nil]
    for (width, expected) in widths {
      let terminal = TerminalInfo(isTerminal: false, columns: width, environment: { _ in nil })
      #expect(code.drawing(on: terminal)?.split(separator: "\n").first?.count == expected)
    }
  }
}
