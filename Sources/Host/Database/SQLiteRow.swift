import CSQLite

/// The row that a query is at. It must not outlive the call that got it.
public struct SQLiteRow {
  let statement: OpaquePointer

  /// The number in a column, counted from 0; nil if there is none: SQLite lets any column hold any type.
  public func integer(_ column: Int32) -> Int64? {
    guard sqlite3_column_type(statement, column) == SQLITE_INTEGER else { return nil }
    return sqlite3_column_int64(statement, column)
  }

  /// A copy of the bytes in a column; nil if it holds something else.
  public func blob(_ column: Int32) -> [UInt8]? {
    guard sqlite3_column_type(statement, column) == SQLITE_BLOB else { return nil }
    // The address first: it may be what makes the bytes.
    let address = sqlite3_column_blob(statement, column)
    return Array(UnsafeRawBufferPointer(start: address, count: Int(sqlite3_column_bytes(statement, column))))
  }

  /// The text in a column; nil if it holds something else, or what is no UTF-8.
  public func text(_ column: Int32) -> String? {
    guard sqlite3_column_type(statement, column) == SQLITE_TEXT else { return nil }
    let address = UnsafeRawPointer(sqlite3_column_text(statement, column))
    let bytes = UnsafeRawBufferPointer(start: address, count: Int(sqlite3_column_bytes(statement, column)))
    return String(validating: bytes, as: UTF8.self)
  }
}
