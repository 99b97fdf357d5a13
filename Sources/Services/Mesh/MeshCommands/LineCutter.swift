/// Splits a stream into lines, with a maximum length.
struct LineCutter {
  enum Line: Equatable {
    /// Line without its terminator.
    case text(String)
    /// Line that exceeds the limit.
    case tooLong
  }

  private let limit: Int
  private var line: [UInt8] = []
  private var isTooLong = false

  /// - Parameter limit: maximum bytes of a line.
  init(limit: Int) {
    self.limit = limit
  }

  /// Returns the lines that end in these bytes.
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

  /// Returns the unterminated last line; nil if it is empty.
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
