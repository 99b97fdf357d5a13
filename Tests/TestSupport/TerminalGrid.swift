/// The screen of a terminal after some output. It knows the few sequences that the tool writes; any other is an
/// error.
public struct TerminalGrid {
  public struct NotUnderstood: Error {
    public let sequence: String
  }

  private struct Cell {
    var character: Character = " "
    /// Grey level of the text, from 0 (black) to 255 (white).
    var ink: UInt8 = Self.light
    var paper: UInt8 = Self.dark

    static let light: UInt8 = 200
    static let dark: UInt8 = 16
  }

  public private(set) var columns: Int
  public private(set) var rows: Int
  private var cells: [[Cell]]
  public private(set) var column = 0
  public private(set) var row = 0
  public private(set) var isCursorShown = true
  /// Whether a program has enabled bracketed paste.
  public private(set) var takesPastes = false
  /// The screen that a full-screen program will restore; nil without such a program.
  private var behind: [[Cell]]?
  private let measure: Measure
  /// The rows of the scrolling region.
  private var region: ClosedRange<Int>
  private var saved = (0, 0)
  private var last: Character = " "
  /// Placeholder in the cell that the second half of a wide character occupies.
  private static let rest: Character = "\0"
  private var pen = Cell()
  /// Bytes of an incomplete character or sequence.
  private var pending: [UInt8] = []

  /// Creates an empty terminal with a dark background.
  public init(columns: Int, rows: Int, measure: Measure = .clusters) {
    self.columns = columns
    self.rows = rows
    self.measure = measure
    region = 0...max(0, rows - 1)
    cells = Array(repeating: Array(repeating: Cell(), count: columns), count: rows)
  }

  /// The text, one string per row, without trailing blanks.
  public var text: [String] {
    cells.map { row in
      String(String(row.map(\.character).filter { $0 != Self.rest }).reversed().drop { $0 == " " }.reversed())
    }
  }

  /// Whether a full-screen program is running.
  public var isTaken: Bool { behind != nil }

  /// The column of a character in a row.
  public func column(of character: Character, row: Int) -> Int? {
    cells[row].firstIndex { $0.character == character }
  }

  /// Changes the size; rows and columns that do not fit are lost.
  public mutating func resize(columns: Int, rows: Int) {
    func fitted(_ cells: [[Cell]]) -> [[Cell]] {
      let wide = cells.map { Array($0.prefix(columns)) + Array(repeating: Cell(), count: max(0, columns - $0.count)) }
      let blank = Array(repeating: Cell(), count: columns)
      return Array(wide.prefix(rows)) + Array(repeating: blank, count: max(0, rows - wide.count))
    }
    cells = fitted(cells)
    behind = behind.map(fitted)
    (self.columns, self.rows) = (columns, rows)
    (row, column) = (min(row, rows - 1), min(column, columns - 1))
    region = 0...rows - 1
  }

  /// - Parameter bytes: UTF-8; an incomplete character or sequence continues with the next call.
  public mutating func write(_ bytes: [UInt8]) throws(NotUnderstood) {
    let all = pending + bytes
    // An incomplete character or sequence is left for the next call.
    let whole = Self.whole(all)
    pending = Array(all[whole...])
    try write(String(decoding: all[..<whole], as: UTF8.self))
  }

  public mutating func write(_ text: String) throws(NotUnderstood) {
    var rest = Substring(text)
    while let character = rest.popFirst() {
      switch character {
      // A full-screen program sends line feeds without implied carriage returns.
      case "\n" where isTaken: lineFeed()
      case "\n", "\r\n": newLine()
      case "\u{8}": column = max(0, column - 1)
      case "\u{7}": break
      case "\r": column = 0
      case "\u{1B}": try obey(&rest)
      default: put(character)
      }
    }
  }

  private static func whole(_ bytes: [UInt8]) -> Int {
    if let escape = bytes.lastIndex(of: 0x1B) {
      let second = escape + 1 < bytes.count ? bytes[escape + 1] : 0
      let isLong = [UInt8(ascii: "["), UInt8(ascii: "(")].contains(second)
      let ends = isLong ? bytes[escape...].dropFirst(2).contains { (0x40...0x7E).contains($0) } : second != 0
      if !ends { return escape }
    }
    guard let begin = bytes.lastIndex(where: { $0 & 0xC0 != 0x80 }) else { return bytes.count }
    let length = bytes[begin] >= 0xF0 ? 4 : bytes[begin] >= 0xE0 ? 3 : bytes[begin] >= 0xC0 ? 2 : 1
    return bytes.count - begin < length ? begin : bytes.count
  }

  // MARK: Characters

  /// Terminals disagree on characters of several scalars: the older ones measure each scalar, the newer ones the
  /// whole.
  public enum Measure: Sendable, CaseIterable {
    case scalars, clusters
  }

  private mutating func put(_ character: Character) {
    guard measure == .scalars else {
      return put(character, isPicture(character) ? 2 : character.unicodeScalars.reduce(0) { $0 + Self.columns($1) })
    }
    for scalar in character.unicodeScalars { put(Character(scalar), Self.columns(scalar)) }
  }

  private func isPicture(_ character: Character) -> Bool {
    let scalars = character.unicodeScalars
    return scalars.count > 1 && scalars.first?.properties.isEmoji == true && scalars.first?.isASCII == false
      && scalars.contains { $0.value == 0xFE0F || $0.value == 0x200D || $0.properties.isEmojiPresentation }
  }

  private mutating func put(_ character: Character, _ width: Int) {
    guard width > 0 else {
      var before = max(0, column - 1)
      if before > 0, cells[row][before].character == Self.rest { before -= 1 }
      cells[row][before].character = Character(String(cells[row][before].character) + String(character))
      return
    }
    if column + width > columns { newLine() }
    for place in column..<column + width { clear(place) }
    cells[row][column] = pen
    cells[row][column].character = character
    for place in column + 1..<max(column + 1, column + width) {
      cells[row][place] = pen
      cells[row][place].character = Self.rest
    }
    column += width
    last = character
  }

  /// Clears a column; the other half of a wide character is cleared, too.
  private mutating func clear(_ column: Int) {
    if cells[row][column].character == Self.rest, column > 0 { cells[row][column - 1].character = " " }
    if column + 1 < columns, cells[row][column + 1].character == Self.rest { cells[row][column + 1].character = " " }
    cells[row][column] = Cell()
  }

  private static func columns(_ scalar: Unicode.Scalar) -> Int {
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .enclosingMark, .format: return 0
    default: break
    }
    if (0x1F1E6...0x1F1FF).contains(scalar.value) { return 1 }
    let wide: [ClosedRange<UInt32>] = [
      0x1100...0x115F, 0x2E80...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFF00...0xFF60,
    ]
    return scalar.properties.isEmojiPresentation || wide.contains { $0.contains(scalar.value) } ? 2 : 1
  }

  private mutating func newLine() {
    column = 0
    lineFeed()
  }

  private mutating func lineFeed() {
    if row == region.upperBound {
      scrollUp(region)
    } else if row < rows - 1 {
      row += 1
    }
  }

  private mutating func scrollUp(_ region: ClosedRange<Int>) {
    cells.remove(at: region.lowerBound)
    cells.insert(Array(repeating: Cell(), count: columns), at: region.upperBound)
  }

  private mutating func scrollDown(_ region: ClosedRange<Int>) {
    cells.remove(at: region.upperBound)
    cells.insert(Array(repeating: Cell(), count: columns), at: region.lowerBound)
  }

  // MARK: Sequences

  private mutating func obey(_ rest: inout Substring) throws(NotUnderstood) {
    switch rest.popFirst() {
    case "[": break
    // The character set is always ASCII; keypad modes do not affect the grid.
    case "(" where rest.first == "B":
      rest = rest.dropFirst()
      return
    case "=", ">": return
    case "7":
      saved = (row, column)
      return
    case "8":
      (row, column) = saved
      return
    case "M":
      if row == region.lowerBound { scrollDown(region) } else { row = max(0, row - 1) }
      return
    case let other: throw NotUnderstood(sequence: other.map { String($0) } ?? "")
    }
    let sequence = rest.prefix { !("@"..."~").contains($0) }
    rest = rest.dropFirst(sequence.count)
    guard let verb = rest.popFirst() else { throw NotUnderstood(sequence: String(sequence)) }
    guard verb != "m" else { return try paint(sequence) }
    if sequence.hasPrefix("?") || ["t", "l", "h"].contains(verb) { return try set(sequence + String(verb)) }
    let numbers = sequence.split(separator: ";", omittingEmptySubsequences: false).map { Int($0) ?? 0 }
    try move(verb, numbers, sequence)
  }

  private mutating func move(_ verb: Character, _ numbers: [Int], _ sequence: Substring) throws(NotUnderstood) {
    let first = numbers.first ?? 0
    let count = max(1, first)
    switch verb {
    case "H": (row, column) = (place(first, rows), place(numbers.count > 1 ? numbers[1] : 0, columns))
    case "d": row = place(first, rows)
    case "G": column = place(first, columns)
    case "A": row = max(0, row - count)
    case "B": row = min(rows - 1, row + count)
    case "C": column = min(columns - 1, column + count)
    case "D": column = max(0, column - count)
    case "K" where first == 0: erase(row, column...)
    case "K" where first == 1: for place in 0...min(column, columns - 1) { cells[row][place] = Cell() }
    case "K" where first == 2: erase(row, 0...)
    case "J" where first == 0:
      erase(row, column...)
      for below in row + 1..<max(row + 1, rows) { erase(below, 0...) }
    case "J" where first == 2: for row in 0..<rows { erase(row, 0...) }
    case "X": for place in column..<min(columns, column + count) { clear(place) }
    case "P":
      cells[row].removeSubrange(column..<min(columns, column + count))
      cells[row] += Array(repeating: Cell(), count: columns - cells[row].count)
    case "@":
      cells[row].insert(contentsOf: Array(repeating: Cell(), count: count), at: column)
      cells[row].removeSubrange(columns...)
    case "L" where region.contains(row): for _ in 0..<count { scrollDown(row...region.upperBound) }
    case "M" where region.contains(row): for _ in 0..<count { scrollUp(row...region.upperBound) }
    case "S": for _ in 0..<count { scrollUp(region) }
    case "T": for _ in 0..<count { scrollDown(region) }
    case "b": for _ in 0..<count { put(last) }
    case "r" where numbers.count == 2 && numbers[0] >= 1 && numbers[0] <= numbers[1] && numbers[1] <= rows:
      region = numbers[0] - 1...numbers[1] - 1
      (row, column) = (0, 0)
    case "r" where first == 0: region = 0...rows - 1
    default: throw NotUnderstood(sequence: sequence + String(verb))
    }
  }

  private func place(_ number: Int, _ limit: Int) -> Int { min(max(1, number), limit) - 1 }

  private mutating func set(_ sequence: Substring) throws(NotUnderstood) {
    switch sequence {
    case "?1049h":
      behind = cells
      for row in 0..<rows { erase(row, 0...) }
    case "?1049l":
      if let behind { cells = behind }
      behind = nil
    case "?25h": isCursorShown = true
    case "?25l": isCursorShown = false
    case "?2004h": takesPastes = true
    case "?2004l": takesPastes = false
    // Modes of keys, insertion, blinking, the window's title, and line wrapping.
    case "?1h", "?1l", "4l", "?12l", "?12h", "22;0;0t", "23;0;0t", "?7h", "?7l", "?1034h", "?1034l": break
    default: throw NotUnderstood(sequence: String(sequence))
    }
  }

  /// Applies black and white; other colours and weights are ignored.
  private mutating func paint(_ sequence: Substring) throws(NotUnderstood) {
    let numbers = sequence.split(separator: ";").compactMap { Int($0) }
    switch numbers {
    case []: pen = Cell()
    case [38, 5, 16, 48, 5, 231]: (pen.ink, pen.paper) = (0, 255)
    case [38, 5, 231, 48, 5, 16]: (pen.ink, pen.paper) = (255, 0)
    default:
      for number in numbers {
        switch number {
        case 0: pen = Cell()
        case 1, 2, 4, 7, 22, 24, 27, 30...37, 39, 49: break
        default: throw NotUnderstood(sequence: sequence + "m")
        }
      }
    }
  }

  private mutating func erase(_ row: Int, _ columns: PartialRangeFrom<Int>) {
    for column in columns.lowerBound..<max(columns.lowerBound, self.columns) { cells[row][column] = Cell() }
  }

  /// The screen in grey, as a camera sees it: a PGM file, four by eight points per cell.
  public var picture: [UInt8] {
    let (width, height) = (4, 8)
    var bytes = Array("P5 \(columns * width) \(rows * height) 255\n".utf8)
    for row in cells {
      for isUpper in [true, false] {
        let line = row.flatMap { cell in
          [UInt8](repeating: Self.isInk(cell.character, isUpper) ? cell.ink : cell.paper, count: width)
        }
        for _ in 0..<height / 2 { bytes += line }
      }
    }
    return bytes
  }

  /// Letters are not drawn in the picture, because they are not modules of a QR code.
  private static func isInk(_ character: Character, _ isUpper: Bool) -> Bool {
    switch character {
    case "█": true
    case "▀": isUpper
    case "▄": !isUpper
    default: false
    }
  }
}
