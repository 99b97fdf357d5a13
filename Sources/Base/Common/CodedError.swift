/// An error with a name that does not change between releases, and a sentence for a person.
public protocol CodedError: Error, Sendable {
  /// The stable name, for programs: `org.earshot.Error.Busy`.
  var code: String { get }
  /// The sentence: the cause and, if a person can correct it, what to do.
  var sentence: String { get }
}
