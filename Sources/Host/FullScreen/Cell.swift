import Terminal

/// What ncurses has in one place: a character, and what combines with it.
struct Cell {
  /// With a 0 at the end.
  let scalars: [Int32]
  let width: Int

  /// ncurses holds five.
  private static let mostScalars = 5

  /// The cells of a settled text: a character whose letters stand beside each other has several.
  static func cells(of text: String) -> [Cell] {
    var cells: [Cell] = []
    var current: [Int32] = []
    var width = 0
    func end() {
      if width > 0 { cells.append(Cell(scalars: current.prefix(mostScalars) + [0], width: width)) }
      (current, width) = ([], 0)
    }
    for scalar in text.unicodeScalars {
      let wide = DisplayText.width(of: Character(scalar))
      if wide > 0 { end() }
      width += wide
      current.append(Int32(bitPattern: scalar.value))
    }
    end()
    return cells
  }
}
