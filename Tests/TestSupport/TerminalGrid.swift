/// What a terminal shows of what was written to it. It knows the few sequences that the tool writes; another one is an error.
public struct TerminalGrid {
  public struct NotUnderstood: Error {
    public let sequence: String
  }

  private struct Cell {
    var character: Character = " "
    /// From black, 0, to white.
    var ink: UInt8 = Self.light
    var paper: UInt8 = Self.dark

    static let light: UInt8 = 200
    static let dark: UInt8 = 16
  }

  public let columns: Int
  public let rows: Int
  private var cells: [[Cell]]
  private var column = 0
  private var row = 0
  private var pen = Cell()
  /// Bytes of a character or sequence of which the rest is still to come.
  private var pending: [UInt8] = []

  /// A dark terminal, with nothing on it.
  public init(columns: Int, rows: Int) {
    self.columns = columns
    self.rows = rows
    cells = Array(repeating: Array(repeating: Cell(), count: columns), count: rows)
  }

  /// The text, a string for each row, without the blanks at its end.
  public var text: [String] {
    cells.map { row in String(String(row.map(\.character)).reversed().drop { $0 == " " }.reversed()) }
  }

  /// - Parameter bytes: UTF-8; what is cut in the middle goes on with the next.
  public mutating func write(_ bytes: [UInt8]) throws(NotUnderstood) {
    let all = pending + bytes
    // A character or sequence that is not yet whole stays behind.
    let whole = Self.whole(all)
    pending = Array(all[whole...])
    try write(String(decoding: all[..<whole], as: UTF8.self))
  }

  public mutating func write(_ text: String) throws(NotUnderstood) {
    var rest = Substring(text)
    while let character = rest.popFirst() {
      switch character {
      case "\n", "\r\n": newLine()
      case "\r": column = 0
      case "\u{1B}": try obey(&rest)
      default: put(character)
      }
    }
  }

  private static func whole(_ bytes: [UInt8]) -> Int {
    if let escape = bytes.lastIndex(of: 0x1B) {
      let ends = bytes[escape...].dropFirst(2).contains { (0x40...0x7E).contains($0) }
      if !ends { return escape }
    }
    guard let begin = bytes.lastIndex(where: { $0 & 0xC0 != 0x80 }) else { return bytes.count }
    let length = bytes[begin] >= 0xF0 ? 4 : bytes[begin] >= 0xE0 ? 3 : bytes[begin] >= 0xC0 ? 2 : 1
    return bytes.count - begin < length ? begin : bytes.count
  }

  private mutating func put(_ character: Character) {
    if column == columns { newLine() }
    cells[row][column] = pen
    cells[row][column].character = character
    column += 1
  }

  private mutating func newLine() {
    column = 0
    row += 1
    guard row == rows else { return }
    row = rows - 1
    cells.removeFirst()
    cells.append(Array(repeating: Cell(), count: columns))
  }

  private mutating func obey(_ rest: inout Substring) throws(NotUnderstood) {
    let sequence = rest.prefix { !$0.isLetter }
    rest = rest.dropFirst(sequence.count)
    guard sequence.first == "[", let verb = rest.popFirst() else { throw NotUnderstood(sequence: String(sequence)) }
    let numbers = sequence.dropFirst().split(separator: ";").compactMap { Int($0) }
    switch (verb, numbers) {
    case ("H", []): (row, column) = (0, 0)
    case ("K", []): erase(row, column...)
    case ("K", [2]): erase(row, 0...)
    case ("J", []):
      erase(row, column...)
      for below in row + 1..<max(row + 1, rows) { erase(below, 0...) }
    case ("m", [0]), ("m", []): pen = Cell()
    case ("m", [1]): break
    case ("m", [38, 5, 16, 48, 5, 231]): (pen.ink, pen.paper) = (0, 255)
    case ("m", [38, 5, 231, 48, 5, 16]): (pen.ink, pen.paper) = (255, 0)
    default: throw NotUnderstood(sequence: sequence + String(verb))
    }
  }

  private mutating func erase(_ row: Int, _ columns: PartialRangeFrom<Int>) {
    for column in columns.lowerBound..<max(columns.lowerBound, self.columns) { cells[row][column] = Cell() }
  }

  /// The picture in grey, as a camera sees it: a PGM file, four by eight points to a cell.
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

  /// Letters are left out: they are no modules.
  private static func isInk(_ character: Character, _ isUpper: Bool) -> Bool {
    switch character {
    case "█": true
    case "▀": isUpper
    case "▄": !isUpper
    default: false
    }
  }
}
