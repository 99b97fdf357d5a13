import Common

/// The content of a terminal: a QR code, and text beside or below it. The type only lays out rows.
public struct Screen: Sendable, Equatable {
  /// The appearance of a text.
  public enum Look: Sendable, Equatable {
    case plain, bold, dim, good, bad
    /// The selected line of the list.
    case selected
    /// A row of the QR code: the foreground is black and the background white.
    case code
  }

  /// A text with one appearance.
  public struct Piece: Sendable, Equatable {
    public var text: String
    public var look: Look

    public init(_ text: String, _ look: Look = .plain) {
      self.text = text
      self.look = look
    }
  }

  /// A paragraph of the screen, or one line of its list.
  public typealias Line = Piece

  /// The QR code; nil if there is none.
  public var code: QRCode?
  /// The instruction for the code, above the heading. It is shown only with the code.
  public var invitation = ""
  /// Paragraphs at the top. Paragraphs, news and the note may contain unfiltered text of a peer.
  public var heading: [String] = []
  /// The progress bars of running transfers.
  public var bars: [ProgressBar] = []
  /// Lines that a user can select. A line that is too long is cut. If not all fit, those around the selected one are
  /// shown.
  public var list: [Line] = []
  /// Details of the selected line, shown below the list.
  public var detail = ""
  /// Texts about recent events, the latest last. The oldest are omitted if space is short.
  public var news: [Line] = []
  /// An instruction at the bottom of the screen, which is always shown completely.
  public var note = ""
  /// The last row of the terminal, which lists the keys.
  public var footer = Line("")

  public init() {}

  /// The screen as text: at most one row less than the terminal, so that the cursor has its own row. The footer is
  /// omitted.
  ///
  /// If the code does not fit, a sentence with the required size replaces the code and its instruction.
  public func lines(on terminal: TerminalInfo) -> [String] {
    body(Size(columns: terminal.width, rows: max(1, terminal.height - 1)), terminal, terminal.hasColour).map { row in
      row.map { $0.look == .code && terminal.hasColour ? QRCode.coloured($0.text) : $0.text }.joined()
    }
  }

  /// The screen as rows of pieces; the last row of the terminal is the footer.
  public func rows(on terminal: TerminalInfo) -> [[Piece]] {
    let room = Size(columns: terminal.width, rows: max(1, terminal.height - 1))
    let body = body(room, terminal, terminal.hasColour)
    let footer = Piece(DisplayText.cut(PrintableText.clean(footer.text), to: room.columns), footer.look)
    return body + Array(repeating: [], count: max(0, room.rows - body.count)) + [[footer]]
  }

  private func body(_ room: Size, _ terminal: TerminalInfo, _ hasColour: Bool) -> [[Piece]] {
    guard let code else { return text(heading, room).map { [$0] } }
    guard let place = Place.candidates(code).first(where: { $0.fits(room) }) else {
      return text([Self.tooSmall(code, terminal)] + heading, room).map { [$0] }
    }
    let drawing = place.drawing(code, colour: hasColour).map { Piece($0, .code) }
    let rest = place.rest(room)
    let text = text((invitation.isEmpty ? [] : [invitation]) + heading, rest)
    if !place.isBeside { return drawing.map { [$0] } + text.map { [$0] } }
    return drawing.enumerated().map { row, piece in
      row < text.count && !text[row].text.isEmpty ? [piece, Piece("  "), text[row]] : [piece]
    }
  }

  private static func tooSmall(_ code: QRCode, _ terminal: TerminalInfo) -> String {
    // The size includes text beside the code, and a row for the cursor.
    let least = Place.size(code, quietZone: 2)
    let columns = least.columns + Place.narrowest + Place.gap
    return "The QR code does not fit: it needs \(columns) columns and \(least.rows + 1) rows, this terminal has "
      + "\(terminal.width) and \(terminal.height). Enlarge the window to show it."
  }

  // MARK: Text

  /// Lays out the text: the note gets its rows first, then the bars, the heading and the list; news gets the rest.
  private func text(_ heading: [String], _ room: Size) -> [Piece] {
    func wrapped(_ lines: [Line]) -> [Piece] {
      lines.flatMap { line in
        DisplayText.wrap(PrintableText.clean(line.text, limit: 1000), to: room.columns).map { Piece($0, line.look) }
      }
    }
    let note = Array(wrapped([Piece(self.note)]).prefix(room.rows))
    var free = room.rows - note.count
    func take(_ lines: [Piece]) -> [Piece] {
      guard !lines.isEmpty, free > 1 else { return [] }
      let taken = Array(lines.prefix(free - 1))
      free -= taken.count + 1
      return taken + [Piece("")]
    }
    let bars = take(barLines(room.columns, atMost: max(1, free - 1)))
    // Keys act on the list, so it gets half of the free rows.
    let detail = wrapped([Piece(self.detail, .dim)])
    let list = listLines(room.columns, atMost: max(1, free / 2 - detail.count)) + (free > 8 ? detail : [])
    let listRows = list.isEmpty ? 0 : list.count + 1
    free -= listRows
    let top = take(wrapped(heading.map { Piece($0) }))
    free += listRows
    let middle = take(list)
    let news = wrapped(self.news).suffix(max(0, free))
    let above = top + bars + middle + news
    let gap = note.isEmpty ? 0 : max(0, room.rows - note.count - above.count)
    return above + [Piece](repeating: Piece(""), count: gap) + note
  }

  private func barLines(_ width: Int, atMost limit: Int) -> [Piece] {
    let lines = bars.map { Piece($0.line(width: width)) }
    if lines.count <= limit { return lines }
    return lines.prefix(limit - 1) + [Piece(DisplayText.cut("and \(lines.count - limit + 1) more", to: width))]
  }

  private func listLines(_ width: Int, atMost limit: Int) -> [Piece] {
    let lines = list.map { Piece(DisplayText.cut(PrintableText.clean($0.text), to: width), $0.look) }
    guard lines.count > limit else { return lines }
    let selected = lines.firstIndex { $0.look == .selected } ?? 0
    let shown = max(1, limit - 1)
    let first = min(max(0, selected - shown / 2), lines.count - shown)
    let more = Piece(DisplayText.cut("and \(lines.count - shown) more", to: width), .dim)
    return Array(lines[first..<first + shown]) + (limit > 1 ? [more] : [])
  }

  // MARK: Layout

  private struct Size {
    var columns: Int
    var rows: Int
  }

  /// A possible size of the QR code on a screen, and the position of the text relative to it.
  private struct Place {
    let size: Size
    let quietZone: Int
    let isLarge: Bool
    let isBeside: Bool

    static let gap = 2
    /// Minimum columns of readable text beside the code.
    static let narrowest = 12
    /// Minimum rows of text below a code without text beside it.
    static let fewest = 3

    /// Possible drawings of the code, from the largest to the smallest.
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

    /// The area of a terminal of size `room` that remains for text beside or below the code.
    func rest(_ room: Size) -> Size {
      isBeside
        ? Size(columns: room.columns - size.columns - Self.gap, rows: size.rows)
        : Size(columns: room.columns, rows: room.rows - size.rows)
    }

    /// The rows of the code, for a terminal that shows them black on white (`colour`), or for a dark terminal.
    func drawing(_ code: QRCode, colour: Bool) -> [String] {
      let text =
        isLarge
        ? code.fullBlocks(quietZone: quietZone, inverted: colour)
        : code.halfBlocks(quietZone: quietZone, inverted: colour)
      return text.split(separator: "\n").map(String.init)
    }
  }
}

extension Screen.Piece: ExpressibleByStringInterpolation {
  public init(stringLiteral value: String) { self.init(value) }
}
