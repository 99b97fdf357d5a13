/// Cuts what a file or a pipe gives, piece by piece, into its lines. A line is kept up to a limit.
struct LineCutter {
  enum Line: Equatable {
    /// Without its end.
    case text(String)
    /// It has more bytes than the limit.
    case tooLong
  }

  private let limit: Int
  private var line: [UInt8] = []
  private var isTooLong = false

  /// - Parameter limit: the most bytes of a line.
  init(limit: Int) {
    self.limit = limit
  }

  /// The lines that end in these bytes.
  mutating func take(_ bytes: some Sequence<UInt8>) -> [Line] {
    var lines: [Line] = []
    for byte in bytes {
      if byte == UInt8(ascii: "\n") {
        lines.append(cut())
      } else if line.count < limit {
        line.append(byte)
      } else {
        isTooLong = true
      }
    }
    return lines
  }

  /// The last line, which ends with the file; nil if it is empty.
  mutating func finish() -> Line? {
    line.isEmpty ? nil : cut()
  }

  private mutating func cut() -> Line {
    defer {
      line.removeAll(keepingCapacity: true)
      isTooLong = false
    }
    return isTooLong ? .tooLong : .text(String(decoding: line, as: UTF8.self))
  }
}
