import Common

/// The reason why a terminal cannot be used.
public struct FullScreenError: CodedError, Equatable {
  enum Reason: String, Sendable {
    case notUnderstood, inUse
  }

  let reason: Reason
  let terminal: String

  /// The stable name.
  public var code: String { reason.rawValue }

  /// The cause, for a person.
  public var sentence: String {
    switch reason {
    case .notUnderstood: "This machine has no description of the terminal \(terminal) (TERM)."
    case .inUse: "This program already uses the terminal."
    }
  }
}
