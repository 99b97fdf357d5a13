/// Something that begins with dashes: a flag, or an option with a value.
public struct Option: Sendable, Equatable {
  /// Without the dashes: `json`.
  public let long: String
  public let short: Character?
  /// Nil for a flag.
  public let value: ValueShape?
  /// What it does, one line.
  public let summary: String

  public init(_ long: String, short: Character? = nil, value: ValueShape? = nil, _ summary: String) {
    self.long = long
    self.short = short
    self.value = value
    self.summary = summary
  }

  /// Every command understands it.
  static let help = Option("help", short: "h", "Show this help.")

  /// `--timeout`, `-t`
  var spellings: [String] { ["--\(long)"] + (short.map { ["-\($0)"] } ?? []) }
}
