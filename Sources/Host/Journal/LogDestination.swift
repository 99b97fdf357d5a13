import Glibc

/// The destination of log lines.
public enum LogDestination: Sendable {
  /// The journal, with all fields, under this SYSLOG_IDENTIFIER.
  case journal(identifier: String, JournalSocket = .shared)
  /// A readable line on standard error.
  case terminal(colour: Bool)
  /// A closure, for tests; it is called on the thread that logs.
  case capture(@Sendable (LogRecord) -> Void)

  /// The journal if standard error is connected to it; otherwise the terminal, in colour if it is one and `NO_COLOR` is
  /// not set.
  public static func automatic(identifier: String) -> LogDestination {
    var status = stat()
    let known = fstat(STDERR_FILENO, &status) == 0
    return choose(
      identifier: identifier, journalStream: environment("JOURNAL_STREAM"), noColor: environment("NO_COLOR"),
      standardError: known ? "\(status.st_dev):\(status.st_ino)" : nil, isTerminal: isatty(STDERR_FILENO) == 1)
  }

  /// - Parameters:
  ///   - journalStream: `$JOURNAL_STREAM`, `device:inode` of the stream that systemd created (systemd.exec(5)). A child
  ///     of the service inherits the variable even if its output is redirected, so the values are compared.
  ///   - standardError: `device:inode` of standard error.
  static func choose(
    identifier: String, journalStream: String?, noColor: String?, standardError: String?, isTerminal: Bool
  ) -> LogDestination {
    if let journalStream, journalStream == standardError { return .journal(identifier: identifier) }
    return .terminal(colour: isTerminal && (noColor ?? "").isEmpty)
  }

  func write(_ record: LogRecord) {
    switch self {
    case .journal(let identifier, let socket):
      socket.send(record, identifier: identifier)
    case .terminal(let colour):
      var now = timespec()
      clock_gettime(CLOCK_REALTIME, &now)
      TerminalLine(record, time: now, colour: colour).write(to: STDERR_FILENO)
    case .capture(let take):
      take(record)
    }
  }

  private static func environment(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }
}
