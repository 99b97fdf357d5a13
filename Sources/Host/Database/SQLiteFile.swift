import CSQLite

/// An open SQLite database: one file that survives a loss of power, with its write-ahead log beside it (`NAME-wal`).
///
/// When `transaction` returns, its changes survive a loss of power. Every call may block on the disk: call it away from
/// the loop. This process has exclusive access while the file is open, and deleted content is overwritten with zeros.
///
/// `@unchecked Sendable`: one thread at a time uses the handle; its owner ensures that with a lock or a separate
/// thread.
public final class SQLiteFile: @unchecked Sendable {
  public struct Options: Hashable, Sendable {
    /// Maximum bytes of a value. It limits memory for the values of a damaged file.
    public var valueLimit: Int32 = 4 << 20
    /// Size of the page cache, in KiB.
    public var cacheKilobytes = 256
    /// Number of log pages of 4 KiB after which the log is written into the database.
    public var logPages = 256

    public init() {}
  }

  /// The files that SQLite may create beside `name`.
  public static func companions(of name: String) -> [String] { ["\(name)-wal", "\(name)-shm", "\(name)-journal"] }

  public let path: String
  private var handle: OpaquePointer?
  /// Prepared statements by SQL text.
  private var statements: [String: OpaquePointer] = [:]

  /// Opens an existing file; an empty file is an empty database.
  ///
  /// SQLite creates its log with the mode of the database: create the file with mode 0600 first.
  ///
  /// - Throws: `missing`, `locked` if another process has it open, `notADatabase`, `damaged`, or an error of the disk;
  ///   `failed` if SQLite did not accept a setting that durability needs.
  public init(path: String, options: Options = Options()) throws(SQLiteError) {
    self.path = path
    // EXRESCODE: a failure of this call itself also has an extended code.
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_EXRESCODE
    let status = sqlite3_open_v2(path, &handle, flags, nil)
    guard status == SQLITE_OK else {
      let error = failure(status, "opened")
      close()
      throw error
    }
    do throws(SQLiteError) {
      try prepare(options)
    } catch {
      close()
      throw error
    }
  }

  deinit {
    close()
  }

  /// Closes the file, which must not be used afterwards. The log is written into the database.
  ///
  /// - Parameter keepsLog: leaves the log file in place, so that it can be overwritten; otherwise it is removed.
  public func close(keepsLog: Bool = false) {
    guard let handle else { return }
    for statement in statements.values { sqlite3_finalize(statement) }
    statements = [:]
    if keepsLog {
      var persists: Int32 = 1
      sqlite3_file_control(handle, "main", SQLITE_FCNTL_PERSIST_WAL, &persists)
      sqlite3_exec(handle, "PRAGMA journal_size_limit=-1", nil, nil, nil)
    }
    sqlite3_close_v2(handle)
    self.handle = nil
  }

  // MARK: Statements and transactions

  /// Executes one statement, and returns the number of changed rows.
  @discardableResult
  public func run(_ sql: String, _ values: [SQLiteValue] = []) throws(SQLiteError) -> Int {
    try query(sql, values) { _ in }
    return Int(sqlite3_changes(handle))
  }

  /// Passes each resulting row to `body`.
  ///
  /// After an error the caller may already have received some rows.
  public func query(
    _ sql: String, _ values: [SQLiteValue] = [], _ body: (SQLiteRow) -> Void
  ) throws(SQLiteError) {
    let statement = try statement(sql)
    defer {
      sqlite3_reset(statement)
      sqlite3_clear_bindings(statement)
    }
    for (index, value) in values.enumerated() {
      try check(bind(value, Int32(index) + 1, statement), "written")
    }
    while true {
      let status = sqlite3_step(statement)
      if status == SQLITE_DONE { return }
      guard status == SQLITE_ROW else {
        throw failure(status, sqlite3_stmt_readonly(statement) != 0 ? "read" : "written")
      }
      body(SQLiteRow(statement: statement))
    }
  }

  /// Executes `body` atomically. When this returns, its changes survive a loss of power.
  @discardableResult
  public func transaction<Value>(_ body: () throws(SQLiteError) -> Value) throws(SQLiteError) -> Value {
    try run("BEGIN IMMEDIATE")
    do throws(SQLiteError) {
      let value = try body()
      try run("COMMIT")
      return value
    } catch {
      // SQLite itself rolls back some failed transactions.
      if sqlite3_get_autocommit(handle) == 0 { _ = try? run("ROLLBACK") }
      throw error
    }
  }

  /// Writes the log into the database and truncates it, so that neither contains deleted data.
  public func emptyLog() throws(SQLiteError) {
    try check(sqlite3_wal_checkpoint_v2(handle, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil), "written")
  }

  /// Reads the value of a pragma.
  public func pragma(_ name: String) throws(SQLiteError) -> SQLiteValue {
    var value = SQLiteValue.null
    try query("PRAGMA \(name)") { row in
      value = row.integer(0).map(SQLiteValue.integer) ?? row.text(0).map(SQLiteValue.text) ?? .null
    }
    return value
  }

  /// Limits the size of the file, in pages.
  public func limit(pages: Int) throws(SQLiteError) { _ = try pragma("max_page_count=\(pages)") }

  // MARK: Settings

  private func prepare(_ options: Options) throws(SQLiteError) {
    try check(sqlite3_extended_result_codes(handle, 1), "opened")
    try check(earshot_set_defensive(handle), "opened")
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, options.valueLimit)
    // No other process has the file open, so there is nothing to wait for.
    sqlite3_busy_timeout(handle, 0)
    // This must precede the log mode: with exclusive locking SQLite uses no shared memory, and creates no file for it.
    try set("locking_mode", to: .text("exclusive"))
    try set("journal_mode", to: .text("wal"))
    // 2 is FULL: each commit is synchronised.
    try set("synchronous", to: .integer(2))
    try set("secure_delete", to: .integer(1))
    try set("foreign_keys", to: .integer(0))
    try set("trusted_schema", to: .integer(0))
    try set("cell_size_check", to: .integer(1))
    // Temporary data stays in memory, so that no file is created in a shared directory.
    try set("temp_store", to: .integer(2))
    try set("mmap_size", to: .integer(0))
    try set("cache_size", to: .integer(Int64(-options.cacheKilobytes)))
    try set("wal_autocheckpoint", to: .integer(Int64(options.logPages)))
  }

  /// Sets a pragma and verifies it, because SQLite ignores values that it does not support.
  private func set(_ name: String, to wanted: SQLiteValue) throws(SQLiteError) {
    let text =
      switch wanted {
      case .integer(let number): "\(number)"
      case .text(let word): word
      case .null, .blob: ""
      }
    _ = try pragma("\(name)=\(text)")
    let found = try pragma(name)
    // A build may omit memory mapping, which is not used here.
    if name == "mmap_size", found == .null { return }
    guard found == wanted else {
      throw SQLiteError(.failed, "SQLite rejected the setting \(name)=\(text) for \(path).")
    }
  }

  // MARK: The library

  private func statement(_ sql: String) throws(SQLiteError) -> OpaquePointer {
    if let known = statements[sql] { return known }
    var made: OpaquePointer?
    let lasts = UInt32(SQLITE_PREPARE_PERSISTENT)
    try check(sqlite3_prepare_v3(handle, sql, -1, lasts, &made, nil), "read")
    guard let made else { throw SQLiteError(.failed, "The SQL text contains no statement.") }
    statements[sql] = made
    return made
  }

  private func bind(_ value: SQLiteValue, _ index: Int32, _ statement: OpaquePointer) -> Int32 {
    switch value {
    case .null: sqlite3_bind_null(statement, index)
    case .integer(let number): sqlite3_bind_int64(statement, index, number)
    case .text(let text): earshot_bind_text(statement, index, text, UInt64(text.utf8.count))
    case .blob(let bytes): earshot_bind_blob(statement, index, bytes, UInt64(bytes.count))
    }
  }

  private func check(_ status: Int32, _ doing: String) throws(SQLiteError) {
    guard status == SQLITE_OK else { throw failure(status, doing) }
  }

  private func failure(_ status: Int32, _ doing: String) -> SQLiteError {
    SQLiteError(status, systemError: handle.map { sqlite3_system_errno($0) } ?? 0, doing, path)
  }
}
