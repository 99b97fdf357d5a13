/// The type of a log line's event: the journal's MESSAGE_ID, with its explanation for the catalog.
///
/// An ID never changes. Common IDs are in `MessageID+House.swift`, those of a service in the service.
public struct MessageID: Hashable, Sendable {
  /// The name in documentation and tests: `RadioReady`.
  public let name: String
  /// 32 lower-case hexadecimal digits, the form in the journal and the catalog.
  public let hex: String
  /// The event, one line of the catalog.
  public let subject: String
  /// The meaning of the event and what to do: the catalog's text, with its line breaks. `@EARSHOT_ADAPTER@` is replaced
  /// by the value of that field.
  public let explanation: String

  public init(_ name: StaticString, _ hex: StaticString, _ subject: StaticString, _ explanation: StaticString) {
    self.name = name.description
    self.hex = hex.description
    self.subject = subject.description
    self.explanation = explanation.description
  }
}
