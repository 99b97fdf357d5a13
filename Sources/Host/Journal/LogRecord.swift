/// One log line before it is written: what a capture closure gets.
public struct LogRecord: Sendable, Equatable {
  public let level: LogLevel
  /// The sentence.
  public let text: String
  public let id: MessageID?
  public let fields: [LogField]
  /// Where in the source the line was logged: `BlueZ/BlueZRadio.swift`, `start()`.
  public let file: String
  public let function: String
  public let line: Int
}
