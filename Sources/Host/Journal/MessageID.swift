/// What kind of event a log line reports: the journal's MESSAGE_ID, under which the catalog explains it.
///
/// The ids are fixed for ever; `MessageID+Known.swift` is the only place that makes them.
public struct MessageID: Hashable, Sendable {
  /// The name in prose and in tests: `RadioReady`.
  public let name: String
  /// 32 lower-case hexadecimal digits, as the journal and the catalog write it.
  public let hex: String

  init(_ name: StaticString, _ hex: StaticString) {
    self.name = name.description
    self.hex = hex.description
  }
}
