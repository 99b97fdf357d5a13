/// An error that can be shown: a name that does not change between releases, and a sentence for a person.
public protocol CodedError: Error, Sendable {
  /// The stable name, for programs: `TVV_TRA_002`, `org.earshot.Error.Busy`.
  var code: String { get }
  /// What went wrong and, where there is something, what to do about it.
  var sentence: String { get }
}
