import Glibc

/// Properties of the output terminal.
public struct TerminalInfo: Sendable, Equatable {
  /// False if the output is a file or a pipe.
  public let isTerminal: Bool
  /// Number of columns.
  public let width: Int
  /// Number of rows.
  public let height: Int
  /// Whether to use colours: the terminal is not dumb, and `NO_COLOR` is not set.
  public let hasColour: Bool
  /// Whether the cursor can return to the first row: the terminal is not dumb.
  public let canRedraw: Bool

  /// A terminal for full-screen drawing.
  public init(columns: Int, rows: Int, hasColour: Bool) {
    (width, height, self.hasColour) = (columns, rows, hasColour)
    (isTerminal, canRedraw) = (true, true)
  }

  /// Queries the terminal of a file descriptor, by default standard output.
  public static func current(_ descriptor: Int32 = STDOUT_FILENO) -> TerminalInfo {
    var size = winsize()
    let known = ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0
    return TerminalInfo(
      isTerminal: isatty(descriptor) == 1, columns: known ? Int(size.ws_col) : 0, rows: known ? Int(size.ws_row) : 0,
      environment: { name in getenv(name).map { String(cString: $0) } })
  }

  /// - Parameters:
  ///   - columns: the terminal's report, 0 if unknown; then `$COLUMNS` applies, or else 80.
  ///   - rows: the terminal's report, 0 if unknown; then `$LINES` applies, or else 24.
  init(isTerminal: Bool, columns: Int, rows: Int = 0, environment: (String) -> String?) {
    func size(_ said: Int, _ variable: String, _ usual: Int) -> Int {
      [said, environment(variable).flatMap { Int($0) } ?? 0].first { (1...10_000).contains($0) } ?? usual
    }
    self.isTerminal = isTerminal
    width = size(columns, "COLUMNS", 80)
    height = size(rows, "LINES", 24)
    canRedraw = isTerminal && environment("TERM") != "dumb"
    hasColour = canRedraw && (environment("NO_COLOR") ?? "").isEmpty
  }
}
