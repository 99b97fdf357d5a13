import Common

/// What fills a terminal: a QR code, and beside it, or below it, what there is to read. It only makes the lines.
public struct Screen: Sendable, Equatable {
  /// The code; nil where nothing is to be scanned.
  public var code: QRCode?
  /// The instruction that belongs to the code, above the heading. It is shown only where the code is drawn.
  public var invitation = ""
  /// What stands at the top, a paragraph each. Paragraphs, news and the note may hold text of a peer as it is.
  public var heading: [String] = []
  /// What is under way.
  public var bars: [ProgressBar] = []
  /// What happened, the latest last; the oldest are left out where there is no room.
  public var news: [String] = []
  /// What stands at the bottom, always: an instruction.
  public var note = ""

  public init() {}

  /// The drawing, and the text within the terminal: at most one row fewer than it has, so that the cursor has a row of its own.
  ///
  /// Where the code does not fit, a sentence with the size that it needs stands in the place of the code and its instruction.
  public func lines(on terminal: TerminalInfo) -> [String] {
    let room = Size(columns: terminal.width, rows: max(1, terminal.height - 1))
    guard let code else { return text(heading, room) }
    guard let place = Place.candidates(code).first(where: { $0.fits(room) }) else {
      return text([Self.tooSmall(code, terminal)] + heading, room)
    }
    let drawing = place.drawing(code, colour: terminal.hasColour)
    let rest = place.rest(room)
    let text = text((invitation.isEmpty ? [] : [invitation]) + heading, rest)
    if !place.isBeside { return drawing + text }
    return drawing.enumerated().map { row, line in
      row < text.count && !text[row].isEmpty ? line + "  " + text[row] : line
    }
  }

  private static func tooSmall(_ code: QRCode, _ terminal: TerminalInfo) -> String {
    // With text beside it, and a row for the cursor.
    let least = Place.size(code, quietZone: 2)
    let columns = least.columns + Place.narrowest + Place.gap
    return "The QR code does not fit: it needs \(columns) columns and \(least.rows + 1) rows, this terminal has "
      + "\(terminal.width) and \(terminal.height). Enlarge the window to show it."
  }

  // MARK: Text

  /// The note has its rows first, then what is under way, then the heading; the news have the rest.
  private func text(_ heading: [String], _ room: Size) -> [String] {
    func wrapped(_ texts: [String]) -> [String] {
      texts.flatMap { DisplayText.wrap(PrintableText.clean($0, limit: 1000), to: room.columns) }
    }
    let note = Array(wrapped([self.note]).prefix(room.rows))
    var free = room.rows - note.count
    func take(_ lines: [String]) -> [String] {
      guard !lines.isEmpty, free > 1 else { return [] }
      let taken = Array(lines.prefix(free - 1))
      free -= taken.count + 1
      return taken + [""]
    }
    let bars = take(barLines(room.columns, atMost: max(1, free - 1)))
    let top = take(wrapped(heading))
    let news = wrapped(self.news).suffix(max(0, free))
    let above = top + bars + news
    let gap = note.isEmpty ? 0 : max(0, room.rows - note.count - above.count)
    return above + [String](repeating: "", count: gap) + note
  }

  private func barLines(_ width: Int, atMost limit: Int) -> [String] {
    let lines = bars.map { $0.line(width: width) }
    if lines.count <= limit { return lines }
    return lines.prefix(limit - 1) + [DisplayText.cut("and \(lines.count - limit + 1) more", to: width)]
  }

  // MARK: Places

  private struct Size {
    var columns: Int
    var rows: Int
  }

  /// A way to put the code on a screen.
  private struct Place {
    let size: Size
    let quietZone: Int
    let isLarge: Bool
    let isBeside: Bool

    static let gap = 2
    /// Narrower text beside the code cannot be read.
    static let narrowest = 12
    /// Rows of text below a code that has none beside it.
    static let fewest = 3

    /// From the one that is read from furthest away to the one that needs least.
    static func candidates(_ code: QRCode) -> [Place] {
      let large = Size(columns: 2 * (code.size + 8), rows: code.size + 8)
      return [Place(size: large, quietZone: 4, isLarge: true, isBeside: true)]
        + [true, false].flatMap { isBeside in
          [4, 2].map {
            Place(size: size(code, quietZone: $0), quietZone: $0, isLarge: false, isBeside: isBeside)
          }
        }
    }

    static func size(_ code: QRCode, quietZone: Int) -> Size {
      let side = code.size + 2 * quietZone
      return Size(columns: side, rows: (side + 1) / 2)
    }

    func fits(_ room: Size) -> Bool {
      let rest = rest(room)
      return isBeside
        ? rest.columns >= Self.narrowest && size.rows <= room.rows
        : size.columns <= room.columns && rest.rows >= Self.fewest
    }

    /// What is left for the text.
    func rest(_ room: Size) -> Size {
      isBeside
        ? Size(columns: room.columns - size.columns - Self.gap, rows: size.rows)
        : Size(columns: room.columns, rows: room.rows - size.rows)
    }

    func drawing(_ code: QRCode, colour: Bool) -> [String] {
      let text =
        isLarge
        ? code.fullBlocks(quietZone: quietZone, colour: colour) : code.halfBlocks(quietZone: quietZone, colour: colour)
      return text.split(separator: "\n").map(String.init)
    }
  }
}
