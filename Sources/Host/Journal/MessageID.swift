/// What kind of event a log line reports: the journal's MESSAGE_ID, with the text under which the catalog explains it.
///
/// An id is fixed for ever. The house's own stand in `MessageID+House.swift`, those of a service with the service.
public struct MessageID: Hashable, Sendable {
  /// The name in prose and in tests: `RadioReady`.
  public let name: String
  /// 32 lower-case hexadecimal digits, as the journal and the catalog write it.
  public let hex: String
  /// What has happened, one line of the catalog.
  public let subject: String
  /// What it means and what to do about it: the catalog's text, in lines as they are printed. `@EARSHOT_ADAPTER@` stands for
  /// the value of that field.
  public let explanation: String

  public init(_ name: StaticString, _ hex: StaticString, _ subject: StaticString, _ explanation: StaticString) {
    self.name = name.description
    self.hex = hex.description
    self.subject = subject.description
    self.explanation = explanation.description
  }
}
