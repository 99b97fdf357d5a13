/// One argument of a method or a signal.
public struct Argument: Hashable, Sendable {
  /// The name, in lower_snake_case.
  public let name: String
  /// The signature of one complete type.
  public let signature: String

  public init(_ name: String, _ signature: String) {
    self.name = name
    self.signature = signature
  }
}

extension [Argument] {
  var signature: String { reduce(into: "") { $0 += $1.signature } }

  /// Formats the arguments for a sentence: `name (s), level (u)`.
  var inWords: String {
    isEmpty ? "no arguments" : map { "\($0.name) (\($0.signature))" }.joined(separator: ", ")
  }
}
