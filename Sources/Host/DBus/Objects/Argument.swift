/// One argument of a method or a signal.
public struct Argument: Hashable, Sendable {
  /// In lower_snake.
  public let name: String
  /// One complete type.
  public let signature: String

  public init(_ name: String, _ signature: String) {
    self.name = name
    self.signature = signature
  }
}

extension [Argument] {
  var signature: String { reduce(into: "") { $0 += $1.signature } }

  /// As a sentence has it: `name (s), level (u)`.
  var inWords: String {
    isEmpty ? "no arguments" : map { "\($0.name) (\($0.signature))" }.joined(separator: ", ")
  }
}
