import Common
import Synchronization

/// The way to the log. Any thread may use it; a line below the level costs one atomic load, its text is not built.
///
/// ```swift
/// Log.shared.notice("The radio \(name) is back", id: .radioReady, .adapter(name))
/// ```
public struct Log: Sendable {
  /// The log of this process. Until ``configure(destination:level:)`` is called, warnings and errors go to standard error.
  public static let shared = Log(destination: .terminal(colour: false), level: .warning)

  private let core: Core

  /// A log of its own, for tests.
  public init(destination: LogDestination, level: LogLevel) {
    core = Core(destination: destination, level: level)
  }

  /// Says where the lines of ``shared`` go, and which; called once at start.
  public static func configure(destination: LogDestination, level: LogLevel) {
    shared.core.destination.withLock { $0 = destination }
    shared.level = level
  }

  /// Tells the journal how many lines of ``shared`` were left out because it did not read, where some were and it reads again.
  public static func reportLost() {
    if case .journal(_, let socket) = shared.core.destination.withLock({ $0 }) { socket.reportLost() }
  }

  /// Lines that matter less than this are not written; it may change at any time.
  public var level: LogLevel {
    get { LogLevel(rawValue: core.level.load(ordering: .relaxed)) ?? .info }
    nonmutating set { core.level.store(newValue.rawValue, ordering: .relaxed) }
  }

  /// True if a line of this level would be written.
  public func writes(_ level: LogLevel) -> Bool {
    level.rawValue <= core.level.load(ordering: .relaxed)
  }

  /// Something failed and will not mend itself.
  public func error(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.error, text, id, fields, file, function, line)
  }

  /// Something is wrong, and the service goes on.
  public func warning(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.warning, text, id, fields, file, function, line)
  }

  /// Worth knowing although nothing is wrong.
  public func notice(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.notice, text, id, fields, file, function, line)
  }

  /// What happens, in the order it happens.
  public func info(
    _ text: @autoclosure () -> LogText, id: MessageID? = nil, _ fields: LogField...,
    file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
  ) {
    write(.info, text, id, fields, file, function, line)
  }

  /// What a developer wants to see.
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
    // Written outside the lock: a capture closure may log, and a slow terminal must not hold up a change of destination.
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
