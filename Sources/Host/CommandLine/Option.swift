/// A flag, or an option with a value.
public struct Option: Sendable, Equatable {
  /// The long name, without dashes: `json`.
  public let long: String
  public let short: Character?
  /// Nil for a flag.
  public let value: ValueShape?
  /// A description, one line.
  public let summary: String

  public init(_ long: String, short: Character? = nil, value: ValueShape? = nil, _ summary: String) {
    self.long = long
    self.short = short
    self.value = value
    self.summary = summary
  }

  /// The option `--help`, which every command accepts.
  static let help = Option("help", short: "h", "Show this help.")

  /// All spellings: `--timeout`, `-t`.
  var spellings: [String] { ["--\(long)"] + (short.map { ["-\($0)"] } ?? []) }
}
