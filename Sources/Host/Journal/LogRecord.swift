/// One log line in the form that a capture closure receives.
public struct LogRecord: Sendable, Equatable {
  public let level: LogLevel
  /// The sentence.
  public let text: String
  public let id: MessageID?
  public let fields: [LogField]
  /// The source location of the call: `BlueZ/BlueZRadio.swift`, `start()`.
  public let file: String
  public let function: String
  public let line: Int
}
