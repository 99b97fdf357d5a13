import Database
import Store

/// A row of the database, whose content is encrypted.
struct SealedRow: Hashable, Sendable {
  let id: Int64
  /// Time of the row, in milliseconds since 1970.
  let time: UInt64
  let sealed: [UInt8]
}

/// Database of the mesh: one table of rows with number, time and sealed content.
enum MeshDatabase {
  static let name = "mesh.db"
  /// File name under which a damaged database is preserved.
  static let damaged = "mesh.db.damaged"
  /// File name of a new database until it has replaced the damaged one.
  static let new = "mesh.db.new"
  static let names = [name, damaged, new]
  /// Version of the schema, stored as `user_version`.
  static let layout: Int64 = 1
  /// Maximum rows that are read; this service writes fewer.
  static let rowLimit: Int64 = 20_000

  /// Opens the database, creates it if needed, and reads the rows. Readable rows of a damaged database are copied into
  /// a new one.
  ///
  /// - Parameter warning: sentence about the damage.
  static func read(
    in directory: StateDirectory, _ warning: inout String?
  ) throws(StoreError) -> (SQLiteFile, [SealedRow]) {
    try finishReplacing(in: directory)
    try make(name, in: directory)
    var rows: [SealedRow] = []
    do throws(StoreError) {
      let file = try open(name, in: directory)
      do throws(SQLiteError) {
        try read(file, "ASC", &rows)
        return (file, rows)
      } catch {
        // Rows beyond the damage are read in reverse order.
        var last: [SealedRow] = []
        _ = try? read(file, "DESC", &last)
        let known = Set(rows.map(\.id))
        rows += last.filter { !known.contains($0.id) }
        file.close()
        throw StoreError(error)
      }
    } catch {
      guard error.reason == .damaged else { throw error }
      warning = "\(error.sentence) Its readable records were restored; \(damaged) is the old file, and may be removed."
      return (try replace(in: directory, with: rows), rows)
    }
  }

  /// Writes and removes rows in one transaction.
  static func write(_ rows: [SealedRow], removing removed: [Int64] = [], to file: SQLiteFile) throws(StoreError) {
    do throws(SQLiteError) {
      try file.transaction { () throws(SQLiteError) in
        for id in removed { try file.run("DELETE FROM record WHERE id = ?", [.integer(id)]) }
        for row in rows {
          let values = [.integer(row.id), .integer(Int64(bitPattern: row.time)), SQLiteValue.blob(row.sealed)]
          try file.run("INSERT OR REPLACE INTO record (id, time, sealed) VALUES (?, ?, ?)", values)
        }
      }
    } catch {
      throw StoreError(error)
    }
  }

  /// Replaces the current database by a new one with these rows; the old file is renamed to `damaged`.
  ///
  /// The current one must be closed. After a loss of power at any point, the next start finds one of the two.
  static func replace(in directory: StateDirectory, with rows: [SealedRow]) throws(StoreError) -> SQLiteFile {
    try directory.erase(files(of: new))
    try make(new, in: directory)
    let file = try open(new, in: directory)
    try write(rows, to: file)
    file.close()
    try directory.erase(files(of: damaged))
    try directory.directory.rename(name, to: damaged)
    try directory.directory.sync()
    try finishReplacing(in: directory)
    return try open(name, in: directory)
  }

  /// Completes an interrupted `replace`: the new database is complete once the old name is free.
  private static func finishReplacing(in directory: StateDirectory) throws(StoreError) {
    let isThere = try directory.directory.status(of: name) != nil
    if isThere { return try directory.erase(files(of: new)) }
    // A write-ahead log without its database must not be applied to another one.
    try directory.erase(SQLiteFile.companions(of: name))
    guard try directory.directory.status(of: new) != nil else { return }
    try directory.directory.rename(new, to: name)
    try directory.directory.sync()
  }

  private static func files(of name: String) -> [String] { [name] + SQLiteFile.companions(of: name) }

  private static func make(_ name: String, in directory: StateDirectory) throws(StoreError) {
    if try directory.directory.status(of: name) == nil {
      _ = try directory.directory.create(name)
      try directory.directory.sync()
    }
    for file in files(of: name) { try directory.requirePrivate(file) }
  }

  private static func open(_ name: String, in directory: StateDirectory) throws(StoreError) -> SQLiteFile {
    let layout: SQLiteValue
    let file: SQLiteFile
    do throws(SQLiteError) {
      file = try SQLiteFile(path: directory.directory.path(of: name))
      layout = try file.pragma("user_version")
      if layout == .integer(0) {
        try file.transaction { () throws(SQLiteError) in
          try file.run(
            "CREATE TABLE record (id INTEGER PRIMARY KEY, time INTEGER NOT NULL, sealed BLOB NOT NULL) STRICT")
          try file.run("PRAGMA user_version = \(Self.layout)")
        }
        return file
      }
    } catch {
      throw StoreError(error)
    }
    guard layout == .integer(Self.layout) else {
      throw StoreError(
        .tooNew,
        "\(directory.directory.path(of: name)) was written by a later release. Install that release, or move the file "
          + "away.")
    }
    return file
  }

  private static func read(_ file: SQLiteFile, _ order: String, _ rows: inout [SealedRow]) throws(SQLiteError) {
    var found: [SealedRow] = []
    defer { rows += found }
    let query = "SELECT id, time, sealed FROM record ORDER BY id \(order) LIMIT \(rowLimit)"
    try file.query(query) { row in
      guard let id = row.integer(0), let time = row.integer(1) else { return }
      found.append(SealedRow(id: id, time: UInt64(bitPattern: time), sealed: row.blob(2) ?? []))
    }
  }
}
