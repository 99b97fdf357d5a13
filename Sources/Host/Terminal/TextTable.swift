import Common

/// A table with aligned columns, separated by two spaces, without lines.
public struct TextTable: Sendable, Equatable {
  public struct Column: Sendable, Equatable {
    public enum Alignment: Sendable { case left, right }

    public let title: String
    public let alignment: Alignment

    public init(_ title: String, _ alignment: Alignment = .left) {
      self.title = title
      self.alignment = alignment
    }
  }

  public let columns: [Column]
  /// The cells; a row may be shorter than the header, and cells beyond the header are ignored. Cells may contain
  /// unfiltered text of a peer.
  public private(set) var rows: [[String]] = []

  public init(_ columns: [Column]) {
    self.columns = columns
  }

  public mutating func append(_ row: [String]) {
    rows.append(row)
  }

  /// The table, with a newline after each line and without trailing spaces.
  /// - Parameters:
  ///   - width: a wider line is cut with an ellipsis; nil means no limit, for output to a file.
  ///   - colour: whether the header is bold.
  public func text(width: Int? = nil, colour: Bool = false) -> String {
    let cells = rows.map { row in
      columns.indices.map { $0 < row.count ? PrintableText.clean(row[$0]) : "" }
    }
    let header = columns.map(\.title)
    let widths = columns.indices.map { column in
      ([header] + cells).map { DisplayText.width($0[column]) }.max() ?? 0
    }
    let lines = ([header] + cells).map { row in
      let line = columns.indices.map { aligned(row[$0], column: $0, width: widths[$0]) }.joined(separator: "  ")
      let bare = String(line.reversed().drop { $0 == " " }.reversed())
      return width.map { DisplayText.cut(bare, to: $0) } ?? bare
    }
    return lines.enumerated().map { index, line in
      index == 0 && colour ? "\u{1B}[1m\(line)\u{1B}[0m\n" : line + "\n"
    }.joined()
  }

  private func aligned(_ text: String, column: Int, width: Int) -> String {
    let gap = String(repeating: " ", count: width - DisplayText.width(text))
    return columns[column].alignment == .left ? text + gap : gap + text
  }
}
