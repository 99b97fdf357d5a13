import Common
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
