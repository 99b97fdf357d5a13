import Terminal

/// One ncurses cell: a character with its combining marks.
struct Cell {
  /// The code points, terminated by 0.
  let scalars: [Int32]
  let width: Int

  /// Maximum code points of an ncurses cell.
  private static let mostScalars = 5

  /// The cells of a settled text. A character whose code points have separate columns occupies several cells.
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
