import Glibc

/// How much a run of the tests tries of what there is by the hundred: a selection that judges, or all of it with `ALL=1` in the
/// environment.
public enum Extent {
  public static let isWhole = getenv("ALL").map { String(cString: $0) } == "1"

  /// The one for a usual run, or the one for a run of everything.
  public static func of<Value>(_ selection: Value, all: Value) -> Value { isWhole ? all : selection }
}
