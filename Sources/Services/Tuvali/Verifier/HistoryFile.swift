import Database
import Store

/// Database of ended transfers, in a folder of its own in the state directory. Every call may block on the disk.
final class HistoryFile: Sendable {
  static let folder = "history"
  static let name = "history.db"
  /// Name of a damaged database, which a new one replaces.
  static let damaged = "history.db.damaged"
  /// Version of the schema, stored as `user_version`.
  static let layout: Int64 = 1
  /// Maximum number of entries: about 10 MB.
  static let entryLimit: Int64 = 100_000

  private let state: StateDirectory
  private let file: SQLiteFile

  /// Opens the database, and creates it if needed.
  ///
  /// - Parameters:
  ///   - path: the state directory.
  ///   - warning: a sentence if a damaged database was replaced by an empty one.
  init(in path: String, _ warning: inout String?) throws(StoreError) {
    let state = try StateDirectory(path: path, folder: Self.folder)
    self.state = state
    file = try Self.openOrReplace(in: state, &warning)
  }

  /// Adds entries, and removes those that are too old or too many, in one transaction.
  ///
  /// - Parameter oldest: entries before this time are removed, in milliseconds since 1970-01-01 UTC.
  func add(_ entries: [HistoryEntry], removingBefore oldest: Int64) throws(StoreError) {
    eraseDamaged(before: oldest)
    do throws(SQLiteError) {
      try file.transaction { () throws(SQLiteError) in
        for entry in entries {
          try file.run(
            "INSERT INTO entry (transfer, time, duration, result, reason, issuer) VALUES (?, ?, ?, ?, ?, ?)",
            [
              .integer(Int64(entry.transfer)), .integer(entry.time), .integer(entry.duration), .text(entry.result),
              .text(entry.reason), .text(entry.issuer),
            ])
        }
        try file.run("DELETE FROM entry WHERE time < ?", [.integer(oldest)])
        try file.run(
          "DELETE FROM entry WHERE id <= (SELECT max(id) FROM entry) - ?", [.integer(Self.entryLimit)])
      }
    } catch {
      throw StoreError(error)
    }
  }

  /// The newest entries before an entry, newest first, each with its ID.
  ///
  /// - Parameter id: an ID that an earlier call returned; nil for the newest entries.
  func entries(before id: Int64?, limit: Int) throws(StoreError) -> [(id: Int64, entry: HistoryEntry)] {
    var found: [(id: Int64, entry: HistoryEntry)] = []
    do throws(SQLiteError) {
      try file.query(
        "SELECT id, transfer, time, duration, result, reason, issuer FROM entry WHERE id < ? ORDER BY id DESC LIMIT ?",
        [.integer(id ?? .max), .integer(Int64(limit))]
      ) { row in
        guard let id = row.integer(0), let transfer = row.integer(1), let time = row.integer(2),
          let duration = row.integer(3), let result = row.text(4), let reason = row.text(5), let issuer = row.text(6)
        else { return }
        found.append(
          (
            id,
            HistoryEntry(
              transfer: Int(transfer), time: time, duration: duration, result: result, reason: reason, issuer: issuer)
          ))
      }
    } catch {
      throw StoreError(error)
    }
    return found
  }

  private static func open(in state: StateDirectory) throws(StoreError) -> SQLiteFile {
    let directory = state.directory
    if try directory.status(of: name) == nil {
      // A write-ahead log without its database must not be applied to another one.
      try state.erase(SQLiteFile.companions(of: name))
      _ = try directory.create(name)
      try directory.sync()
    }
    for file in [name] + SQLiteFile.companions(of: name) { try state.requirePrivate(file) }
    let version: SQLiteValue
    let file: SQLiteFile
    do throws(SQLiteError) {
      file = try SQLiteFile(path: directory.path(of: name))
      version = try file.pragma("user_version")
      if version == .integer(0) { try make(in: file) }
    } catch {
      throw StoreError(error)
    }
    guard [.integer(0), .integer(layout)].contains(version) else {
      throw StoreError(
        .tooNew,
        "\(directory.path(of: name)) was written by a later release. Install that release, or move the file away.")
    }
    return file
  }

  private static func openOrReplace(
    in state: StateDirectory, _ warning: inout String?
  ) throws(StoreError) -> SQLiteFile {
    do throws(StoreError) {
      return try open(in: state)
    } catch {
      guard error.reason == .damaged else { throw error }
      try setAside(in: state)
      warning = "\(error.sentence) A new history begins; \(damaged) is the old file, and may be removed."
      return try open(in: state)
    }
  }

  private static func make(in file: SQLiteFile) throws(SQLiteError) {
    try file.transaction { () throws(SQLiteError) in
      try file.run(
        """
        CREATE TABLE entry (id INTEGER PRIMARY KEY AUTOINCREMENT, transfer INTEGER NOT NULL, time INTEGER NOT NULL, \
        duration INTEGER NOT NULL, result TEXT NOT NULL, reason TEXT NOT NULL, issuer TEXT NOT NULL) STRICT
        """)
      try file.run("PRAGMA user_version = \(layout)")
    }
  }

  /// Erases the damaged database if all its entries are too old. Failure is not reported: the next call tries again.
  private func eraseDamaged(before oldest: Int64) {
    guard let status = try? state.directory.status(of: Self.damaged), status.modified < oldest / 1000 else { return }
    try? state.erase([Self.damaged])
  }

  private static func setAside(in state: StateDirectory) throws(StoreError) {
    try state.erase([damaged] + SQLiteFile.companions(of: name))
    try state.directory.rename(name, to: damaged)
    try state.directory.sync()
  }
}
