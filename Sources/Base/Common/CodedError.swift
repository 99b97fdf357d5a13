/// An error that can be shown: it has a name that does not change between releases, and a sentence for a person.
public protocol CodedError: Error, Sendable {
  /// The stable name, for programs: `org.earshot.Error.Busy`.
  var code: String { get }
  /// The sentence: what went wrong and, if a person can do something about it, what to do.
  var sentence: String { get }
}
