/// A positional argument of a command.
public struct Argument: Sendable, Equatable {
  /// How often the argument may occur.
  public enum Count: Sendable, Equatable {
    case one, optional, any
  }

  public let value: ValueShape
  public let count: Count
  /// A description, one line.
  public let summary: String

  public init(_ value: ValueShape, _ summary: String, count: Count = .one) {
    self.value = value
    self.count = count
    self.summary = summary
  }

  /// The placeholder in the help text, and the key in a parsed command.
  public var name: String { value.name }
}
