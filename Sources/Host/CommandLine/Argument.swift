/// Something that stands by itself behind a command.
public struct Argument: Sendable, Equatable {
  /// How often it may stand there.
  public enum Count: Sendable, Equatable {
    case one, optional, any
  }

  public let value: ValueShape
  public let count: Count
  /// What it is, one line.
  public let summary: String

  public init(_ value: ValueShape, _ summary: String, count: Count = .one) {
    self.value = value
    self.count = count
    self.summary = summary
  }

  /// The word in the help text, by which a parsed command is asked for it.
  public var name: String { value.name }
}
