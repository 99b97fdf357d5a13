import CSQLite

/// An open database of SQLite: one file that is whole after a loss of power, with its log beside it (`NAME-wal`).
///
/// What a transaction has written survives a loss of power when `transaction` returns. Every call may wait for the disk: call
/// it away from the loop. The file is this process's alone while it is open, and deleted content is overwritten with zeros.
///
/// `@unchecked Sendable`: one thread at a time uses the handle; its owner sees to that with a lock, or with a thread of its own.
public final class SQLiteFile: @unchecked Sendable {
  public struct Options: Hashable, Sendable {
    /// The longest value, in bytes: no more memory than that is taken for one, whatever a damaged file says.
    public var valueLimit: Int32 = 4 << 20
    /// How much of the file is held in memory, in KiB.
    public var cacheKilobytes = 256
    /// After so many pages of 4 KiB the log goes into the file.
    public var logPages = 256

    public init() {}
  }

  /// The files that SQLite may make beside `name`.
  public static func companions(of name: String) -> [String] { ["\(name)-wal", "\(name)-shm", "\(name)-journal"] }

  public let path: String
  private var handle: OpaquePointer?
  /// Prepared statements, by their text.
  private var statements: [String: OpaquePointer] = [:]

  /// Opens a file that is there; an empty one is an empty database.
  ///
  /// SQLite makes its log with the file's own mode: make the file with 0600 first.
  ///
  /// - Throws: `missing`, `locked` if another process has it, `notADatabase`, `damaged`, or what the disk says; `failed` if
  ///   SQLite did not take a setting on which durability depends.
  public init(path: String, options: Options = Options()) throws(SQLiteError) {
    self.path = path
    // EXRESCODE: a failure of this very call has its extended code.
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

  /// Closes the file; nothing can be done with it afterwards. What is in the log goes into the file.
  ///
  /// - Parameter keepsLog: leaves the log as it is, so that it can be overwritten; else it is removed.
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

  // MARK: Work

  /// Does one statement, and returns how many rows it changed.
  @discardableResult
  public func run(_ sql: String, _ values: [SQLiteValue] = []) throws(SQLiteError) -> Int {
    try query(sql, values) { _ in }
    return Int(sqlite3_changes(handle))
  }

  /// Hands each row that the statement finds to `body`.
  ///
  /// What was found before an error stays with the caller.
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

  /// Does all that `body` does, or nothing of it. When this returns, it survives a loss of power.
  @discardableResult
  public func transaction<Value>(_ body: () throws(SQLiteError) -> Value) throws(SQLiteError) -> Value {
    try run("BEGIN IMMEDIATE")
    do throws(SQLiteError) {
      let value = try body()
      try run("COMMIT")
      return value
    } catch {
      // SQLite ends some transactions by itself when they fail.
      if sqlite3_get_autocommit(handle) == 0 { _ = try? run("ROLLBACK") }
      throw error
    }
  }

  /// Writes the log into the file and empties it, so that what was deleted is in neither.
  public func emptyLog() throws(SQLiteError) {
    try check(sqlite3_wal_checkpoint_v2(handle, nil, SQLITE_CHECKPOINT_TRUNCATE, nil, nil), "written")
  }

  /// The value of a pragma that has one.
  public func pragma(_ name: String) throws(SQLiteError) -> SQLiteValue {
    var value = SQLiteValue.null
    try query("PRAGMA \(name)") { row in
      value = row.integer(0).map(SQLiteValue.integer) ?? row.text(0).map(SQLiteValue.text) ?? .null
    }
    return value
  }

  /// Lets the file become no larger than so many pages.
  public func limit(pages: Int) throws(SQLiteError) { _ = try pragma("max_page_count=\(pages)") }

  // MARK: Settings

  private func prepare(_ options: Options) throws(SQLiteError) {
    try check(sqlite3_extended_result_codes(handle, 1), "opened")
    try check(earshot_set_defensive(handle), "opened")
    sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, options.valueLimit)
    // Nobody else has the file, so there is nothing to wait for.
    sqlite3_busy_timeout(handle, 0)
    // Before the log: a file that is this connection's alone needs no memory that is shared, and so no file for that.
    try set("locking_mode", to: .text("exclusive"))
    try set("journal_mode", to: .text("wal"))
    // 2 is FULL: each commit is synchronised.
    try set("synchronous", to: .integer(2))
    try set("secure_delete", to: .integer(1))
    try set("foreign_keys", to: .integer(0))
    try set("trusted_schema", to: .integer(0))
    try set("cell_size_check", to: .integer(1))
    // Memory, so that no file is made in a folder of everybody's.
    try set("temp_store", to: .integer(2))
    try set("mmap_size", to: .integer(0))
    try set("cache_size", to: .integer(Int64(-options.cacheKilobytes)))
    try set("wal_autocheckpoint", to: .integer(Int64(options.logPages)))
  }

  /// Sets a pragma and reads it back: SQLite passes over what it cannot do.
  private func set(_ name: String, to wanted: SQLiteValue) throws(SQLiteError) {
    let text =
      switch wanted {
      case .integer(let number): "\(number)"
      case .text(let word): word
      case .null, .blob: ""
      }
    _ = try pragma("\(name)=\(text)")
    let found = try pragma(name)
    // A build may leave out what nobody maps.
    if name == "mmap_size", found == .null { return }
    guard found == wanted else {
      throw SQLiteError(.failed, "SQLite does not take the setting \(name)=\(text) for \(path).")
    }
  }

  // MARK: The library

  private func statement(_ sql: String) throws(SQLiteError) -> OpaquePointer {
    if let known = statements[sql] { return known }
    var made: OpaquePointer?
    let lasts = UInt32(SQLITE_PREPARE_PERSISTENT)
    try check(sqlite3_prepare_v3(handle, sql, -1, lasts, &made, nil), "read")
    guard let made else { throw SQLiteError(.failed, "There is no statement in the text.") }
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
