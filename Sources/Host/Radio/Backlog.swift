/// The limit of data on a link that waits in the system, and that later data cannot overtake.
public enum Backlog: Hashable, Sendable {
  /// A small limit, because the next data may be urgent.
  case short
  /// A larger limit: the programs handle many values at a time, which costs less for each value.
  case long
}
