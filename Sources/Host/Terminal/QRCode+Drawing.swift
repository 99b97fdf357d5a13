extension QRCode {
  /// The code as text, two modules to a character, a newline behind each line.
  ///
  /// With `colour` the modules are black on white whatever the terminal looks like. Without it nobody knows: the drawing
  /// is right on a dark terminal, and `inverted` right on a light one.
  /// - Parameter quietZone: light modules on each side; the standard asks for 4, readers are content with 2.
  public func halfBlocks(quietZone: Int = 4, inverted: Bool = false, colour: Bool = false) -> String {
    // The glyph is what stands in the foreground: dark modules if that is black or the terminal is light.
    let glyphIsDark = colour || inverted
    let (begin, end) = colour ? (inverted ? Self.whiteOnBlack : Self.blackOnWhite, Self.plain) : ("", "")
    var text = ""
    for row in stride(from: -quietZone, to: size + quietZone, by: 2) {
      text += begin
      for column in -quietZone..<size + quietZone {
        let upper = isDark(column: column, row: row) == glyphIsDark
        // The height is odd: below the last row there is nothing, which is the background.
        let lower = row + 1 < size + quietZone && isDark(column: column, row: row + 1) == glyphIsDark
        text += Self.block(upper: upper, lower: lower)
      }
      text += end + "\n"
    }
    return text
  }

  /// The same with two columns to a module, a line to each row of them: four times the area, for a large terminal.
  public func fullBlocks(quietZone: Int = 4, inverted: Bool = false) -> String {
    (-quietZone..<size + quietZone).map { row in
      let modules = (-quietZone..<size + quietZone).map { isDark(column: $0, row: row) == inverted ? "██" : "  " }
      return modules.joined() + "\n"
    }.joined()
  }

  /// A row of an `inverted` drawing without colour, black on white.
  static func coloured(_ row: String) -> String { blackOnWhite + row + plain }

  /// The drawing that suits a terminal of this width, with the widest quiet zone that fits; nil if the code does not fit at all.
  public func drawing(on terminal: TerminalInfo) -> String? {
    guard let quietZone = [4, 2].first(where: { size + 2 * $0 <= terminal.width }) else { return nil }
    return halfBlocks(quietZone: quietZone, colour: terminal.hasColour)
  }

  // Numbers from the 256-colour table, because a theme may show the plain colours as something else.
  private static let blackOnWhite = "\u{1B}[38;5;16;48;5;231m"
  private static let whiteOnBlack = "\u{1B}[38;5;231;48;5;16m"
  private static let plain = "\u{1B}[0m"

  private static func block(upper: Bool, lower: Bool) -> String {
    switch (upper, lower) {
    case (true, true): "█"
    case (true, false): "▀"
    case (false, true): "▄"
    case (false, false): " "
    }
  }
}
