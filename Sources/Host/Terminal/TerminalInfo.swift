import Glibc

/// What is known about the terminal that is written to.
public struct TerminalInfo: Sendable, Equatable {
  /// False if the output is a file or a pipe.
  public let isTerminal: Bool
  /// Columns.
  public let width: Int
  /// Rows.
  public let height: Int
  /// True if colours are welcome: a terminal that is not dumb, and no `NO_COLOR`.
  public let hasColour: Bool
  /// True if the cursor can be sent back to the first row: a terminal that is not dumb.
  public let canRedraw: Bool

  /// A terminal on which a program draws the full screen.
  public init(columns: Int, rows: Int, hasColour: Bool) {
    (width, height, self.hasColour) = (columns, rows, hasColour)
    (isTerminal, canRedraw) = (true, true)
  }

  /// Asks the terminal behind a file descriptor, standard output's unless told otherwise.
  public static func current(_ descriptor: Int32 = STDOUT_FILENO) -> TerminalInfo {
    var size = winsize()
    let known = ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0
    return TerminalInfo(
      isTerminal: isatty(descriptor) == 1, columns: known ? Int(size.ws_col) : 0, rows: known ? Int(size.ws_row) : 0,
      environment: { name in getenv(name).map { String(cString: $0) } })
  }

  /// - Parameters:
  ///   - columns: what the terminal says, 0 if it does not know; then `$COLUMNS` counts, and at last 80.
  ///   - rows: the same; then `$LINES`, and at last 24.
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
