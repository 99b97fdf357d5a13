import Terminal

/// The content of a terminal: rows of styled texts, and the cursor position. Texts are settled (`DisplayText.settled`),
/// and each row fits into the columns.
public struct Frame: Sendable, Equatable {
  /// A text in one style.
  public struct Run: Sendable, Equatable {
    public var text: String
    public var style: Style

    public init(_ text: String, _ style: Style = .plain) {
      self.text = text
      self.style = style
    }
  }

  /// A cell position, from 0 at the upper left.
  public struct Place: Sendable, Equatable {
    public var row: Int
    public var column: Int

    public init(row: Int, column: Int) {
      self.row = row
      self.column = column
    }
  }

  public var rows: [[Run]]
  /// The cursor position; nil hides the cursor.
  public var cursor: Place?

  public init(rows: [[Run]] = [], cursor: Place? = nil) {
    self.rows = rows
    self.cursor = cursor
  }

  /// The rows as plain strings, without trailing blanks.
  public var text: [String] {
    rows.map { row in
      String(row.map(\.text).joined().reversed().drop { $0 == " " }.reversed())
    }
  }
}

extension [Frame.Run] {
  public var width: Int { reduce(0) { $0 + DisplayText.width($1.text) } }

  /// The row with exactly `width` columns: cut with an ellipsis, or padded with blanks.
  public func fitted(to width: Int, fill: Style = .plain) -> [Frame.Run] {
    var result: [Frame.Run] = []
    var room = width
    for (index, run) in enumerated() {
      let wide = DisplayText.width(run.text)
      // If text follows, the ellipsis needs a column.
      let isLast = self[(index + 1)...].allSatisfy(\.text.isEmpty)
      if wide > room || wide == room && !isLast {
        let text = DisplayText.cut(wide > room ? run.text : run.text + "  ", to: room)
        result.append(Frame.Run(text, run.style))
        room -= DisplayText.width(text)
        break
      }
      result.append(run)
      room -= wide
    }
    if room > 0 { result.append(Frame.Run(String(repeating: " ", count: room), fill)) }
    return result
  }
}

/// The appearance of a text. A terminal without colours uses the other attributes.
public struct Style: Sendable, Hashable {
  public enum Colour: Int16, Sendable, CaseIterable {
    /// The terminal's default colour.
    case plain = 0
    case red, green, yellow, blue, magenta, cyan
  }

  public var colour = Colour.plain
  public var isBold = false
  public var isDim = false
  public var isReverse = false
  public var isUnderlined = false
  /// Black on white, independent of the terminal's default colours; the other members are then ignored. A terminal
  /// without colours uses its defaults.
  public var isBlackOnWhite = false

  public init(
    _ colour: Colour = .plain, bold: Bool = false, dim: Bool = false, reverse: Bool = false, underlined: Bool = false
  ) {
    self.colour = colour
    isBold = bold
    isDim = dim
    isReverse = reverse
    isUnderlined = underlined
  }

  public static let plain = Style()

  /// The style of a QR code, for cameras.
  public static let blackOnWhite: Style = {
    var style = Style()
    style.isBlackOnWhite = true
    return style
  }()
}
