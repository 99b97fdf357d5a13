/// A value in a column, or for one.
public enum SQLiteValue: Hashable, Sendable {
  case null
  case integer(Int64)
  case text(String)
  case blob([UInt8])
}
