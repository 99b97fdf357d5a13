extension QRCode {
  /// The code as text, two modules per character, with a newline after each line.
  ///
  /// With `colour` the modules are black on white on any terminal. Without it the drawing is correct on a dark
  /// terminal, and `inverted` is correct on a light one.
  /// - Parameter quietZone: light modules on each side; the standard requires 4, readers accept 2.
  public func halfBlocks(quietZone: Int = 4, inverted: Bool = false, colour: Bool = false) -> String {
    // Glyphs have the foreground colour: they are dark modules if that is black or the terminal is light.
    let glyphIsDark = colour || inverted
    let (begin, end) = colour ? (inverted ? Self.whiteOnBlack : Self.blackOnWhite, Self.plain) : ("", "")
    var text = ""
    for row in stride(from: -quietZone, to: size + quietZone, by: 2) {
      text += begin
      for column in -quietZone..<size + quietZone {
        let upper = isDark(column: column, row: row) == glyphIsDark
        // The height is odd: there is only background below the last row.
        let lower = row + 1 < size + quietZone && isDark(column: column, row: row + 1) == glyphIsDark
        text += Self.block(upper: upper, lower: lower)
      }
      text += end + "\n"
    }
    return text
  }

  /// The code as text, with two columns and one line per module: four times the area, for a large terminal.
  public func fullBlocks(quietZone: Int = 4, inverted: Bool = false) -> String {
    (-quietZone..<size + quietZone).map { row in
      let modules = (-quietZone..<size + quietZone).map { isDark(column: $0, row: row) == inverted ? "██" : "  " }
      return modules.joined() + "\n"
    }.joined()
  }

  /// A row of an `inverted` drawing without colour, shown black on white.
  static func coloured(_ row: String) -> String { blackOnWhite + row + plain }

  /// The drawing for a terminal of this width, with the widest quiet zone that fits; nil if the code does not fit.
  public func drawing(on terminal: TerminalInfo) -> String? {
    guard let quietZone = [4, 2].first(where: { size + 2 * $0 <= terminal.width }) else { return nil }
    return halfBlocks(quietZone: quietZone, colour: terminal.hasColour)
  }

  // Colours from the 256-colour table, because themes may redefine the basic colours.
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
