import CSQLite

/// The present row of a query. It is valid only inside the callback.
public struct SQLiteRow {
  let statement: OpaquePointer

  /// The integer in a column, from 0; nil if it is of another type, because SQLite allows any type in any column.
  public func integer(_ column: Int32) -> Int64? {
    guard sqlite3_column_type(statement, column) == SQLITE_INTEGER else { return nil }
    return sqlite3_column_int64(statement, column)
  }

  /// A copy of the blob in a column; nil if it is of another type.
  public func blob(_ column: Int32) -> [UInt8]? {
    guard sqlite3_column_type(statement, column) == SQLITE_BLOB else { return nil }
    // The pointer must be requested first, because that call may convert the value.
    let address = sqlite3_column_blob(statement, column)
    return Array(UnsafeRawBufferPointer(start: address, count: Int(sqlite3_column_bytes(statement, column))))
  }

  /// The text in a column; nil if it is of another type, or not UTF-8.
  public func text(_ column: Int32) -> String? {
    guard sqlite3_column_type(statement, column) == SQLITE_TEXT else { return nil }
    let address = UnsafeRawPointer(sqlite3_column_text(statement, column))
    let bytes = UnsafeRawBufferPointer(start: address, count: Int(sqlite3_column_bytes(statement, column)))
    return String(validating: bytes, as: UTF8.self)
  }
}
