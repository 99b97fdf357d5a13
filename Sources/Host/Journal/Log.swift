import Common
import Glibc
import Synchronization

/// A log, usable from any thread. A line below the level costs one atomic load, and its text is not created.
///
/// ```swift
/// Log.shared.notice("The radio \(name) is back", id: .radioReady, .adapter(name))
/// ```
public struct Log: Sendable {
  /// The log of this process. Until ``configure(destination:level:)`` is called, warnings and errors go to standard
  /// error.
  public static let shared = Log(destination: .terminal(colour: false), level: .warning)

  private let core: Core

  /// A separate log, for tests.
  public init(destination: LogDestination, level: LogLevel) {
    core = Core(destination: destination, level: level)
  }

  /// Sets the destination and level of ``shared``; called once at start.
  public static func configure(destination: LogDestination, level: LogLevel) {
    shared.core.destination.withLock { $0 = destination }
    shared.level = level
  }

  /// Reports the number of lines of ``shared`` that were dropped because the journal did not read, if there are any and
  /// it reads again.
  public static func reportLost() {
    if case .journal(_, let socket) = shared.core.destination.withLock({ $0 }) { socket.reportLost() }
  }

  /// The least important level that is written; it may change at any time.
  public var level: LogLevel {
    get { LogLevel(rawValue: core.level.load(ordering: .relaxed)) ?? .info }
    nonmutating set { core.level.store(newValue.rawValue, ordering: .relaxed) }
  }

  /// Whether a line of this level would be written.
  public func writes(_ level: LogLevel) -> Bool {
    level.rawValue <= core.level.load(ordering: .relaxed)
  }

  /// Logs a failure that is permanent without intervention.
  public func error(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.error, text, id, fields, file, function, line)
  }

  /// Logs a problem; the service continues.
  public func warning(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.warning, text, id, fields, file, function, line)
  }

  /// Logs a significant event that is not a problem.
  public func notice(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.notice, text, id, fields, file, function, line)
  }

  /// Logs an ordinary event.
  public func info(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.info, text, id, fields, file, function, line)
  }

  /// Logs details for developers.
  public func debug(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.debug, text, id, fields, file, function, line)
  }

  private func write(
    _ level: LogLevel, _ text: () -> LogText, _ id: MessageID?, _ fields: [LogField],
    _ file: StaticString, _ function: StaticString, _ line: Int
  ) {
    guard writes(level) else { return }
    let record = LogRecord(
      level: level, text: text().text, id: id, fields: fields,
      file: file.description, function: function.description, line: line)
    // The line is written outside the lock: a capture closure may log, and a slow terminal must not delay a change of
    // destination.
    core.destination.withLock { $0 }.write(record)
  }

  private final class Core: Sendable {
    let destination: Locked<LogDestination>
    let level: Atomic<Int>

    init(destination: LogDestination, level: LogLevel) {
      self.destination = Locked(destination)
      self.level = Atomic(level.rawValue)
    }
  }
}

/// The importance of a log line. The raw value is the syslog priority: a smaller value is more important.
public enum LogLevel: Int, Sendable, CaseIterable, Comparable {
  /// A failure that is permanent without intervention.
  case error = 3
  /// A problem; the service continues.
  case warning = 4
  /// A significant event that is not a problem: the service is ready, the radio is back.
  case notice = 5
  /// An ordinary event.
  case info = 6
  /// Details for developers; normally disabled.
  case debug = 7

  /// The name in the configuration file: `error`, `warning`, `notice`, `info`, `debug`.
  public var name: String {
    switch self {
    case .error: "error"
    case .warning: "warning"
    case .notice: "notice"
    case .info: "info"
    case .debug: "debug"
    }
  }

  /// The level with this name, ignoring case.
  public init?(name: String) {
    let wanted = name.lowercased()
    guard let level = Self.allCases.first(where: { $0.name == wanted }) else { return nil }
    self = level
  }

  /// Whether `left` is less important than `right`: `debug < error`.
  public static func < (left: LogLevel, right: LogLevel) -> Bool {
    left.rawValue > right.rawValue
  }
}

/// One log line in the form that a capture closure receives.
public struct LogRecord: Sendable, Equatable {
  public let level: LogLevel
  /// The sentence of the log line, without its fields.
  public let text: String
  public let id: MessageID?
  public let fields: [LogField]
  /// The source location of the call: `BlueZ/BlueZRadio.swift`, `start()`.
  public let file: String
  public let function: String
  public let line: Int
}

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
