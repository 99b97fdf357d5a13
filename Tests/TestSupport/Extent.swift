import Glibc

/// The extent of a test run, for tests with hundreds of cases: a sufficient selection, or all cases with `ALL=1` in
/// the environment.
public enum Extent {
  public static let isWhole = getenv("ALL").map { String(cString: $0) } == "1"

  /// Returns `selection` in an ordinary run, and `all` in a complete run (`ALL=1`).
  public static func of<Value>(_ selection: Value, all: Value) -> Value { isWhole ? all : selection }
}
