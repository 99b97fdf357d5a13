import Glibc

/// What is known about the terminal that is written to.
public struct TerminalInfo: Sendable, Equatable {
  /// False if the output is a file or a pipe.
  public let isTerminal: Bool
  /// Columns.
  public let width: Int
  /// True if colours are welcome: a terminal that is not dumb, and no `NO_COLOR`.
  public let hasColour: Bool

  /// Asks the terminal behind a file descriptor, standard output's unless told otherwise.
  public static func current(_ descriptor: Int32 = STDOUT_FILENO) -> TerminalInfo {
    var size = winsize()
    let known = ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0
    return TerminalInfo(
      isTerminal: isatty(descriptor) == 1, columns: known ? Int(size.ws_col) : 0,
      environment: { name in getenv(name).map { String(cString: $0) } })
  }

  /// - Parameter columns: what the terminal says, 0 if it does not know; then `$COLUMNS` counts, and at last 80.
  init(isTerminal: Bool, columns: Int, environment: (String) -> String?) {
    self.isTerminal = isTerminal
    let wished = environment("COLUMNS").flatMap { Int($0) } ?? 0
    width = [columns, wished].first { (1...10_000).contains($0) } ?? 80
    hasColour = isTerminal && (environment("NO_COLOR") ?? "").isEmpty && environment("TERM") != "dumb"
  }
}
