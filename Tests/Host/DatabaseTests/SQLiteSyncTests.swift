import Common
import Glibc
import TestSupport
import Testing

@testable import Database

/// The simulated disk separates synced data from unsynced data.
@Suite("Durability of SQLite files")
struct SQLiteSyncTests {
  private typealias Image = [String: [UInt8]]

  private let stand: SQLiteFileTests

  init() throws { stand = try SQLiteFileTests() }

  /// Opens a copy of these database files and counts the rows.
  private static func rows(_ image: Image) throws -> Int {
    let other = try SQLiteFileTests()
    for (name, bytes) in image { try other.folder.write(bytes, to: name) }
    let file = try other.open()
    var count = 0
    try file.query("SELECT count(*) FROM line") { count = Int($0.integer(0) ?? 0) }
    return count
  }

  /// Files that a power loss may leave: with all unsynced data, with none, or with those of one file.
  private static func images(_ synced: Image, _ written: Image) -> [Image] {
    var images = [synced, written]
    for name in ["kept.db", "kept.db-wal"] {
      var mixed = synced
      mixed[name] = written[name]
      images.append(mixed)
    }
    return images
  }

  @Test("A transaction that was confirmed survives a power loss at every later sync")
  func committed() throws {
    var options = SQLiteFile.Options()
    // A small limit, so that the log is often written back to the file.
    options.logPages = 4
    let disk = SyncedFiles(stand.folder.path)
    let committed = Locked(0)
    let seen = Locked<[(rows: Int, images: [Image])]>([])
    let note: @Sendable () -> Void = {
      let images = Self.images(disk.content, disk.written)
      seen.withLock { $0.append((committed.withLock { $0 }, images)) }
    }
    try disk.during(meanwhile: note) {
      let file = try SQLiteFile(path: stand.path, options: options)
      try file.run("CREATE TABLE line (id INTEGER PRIMARY KEY, text)")
      for number in 1...24 {
        try file.transaction { () throws(SQLiteError) in
          try file.run("INSERT INTO line (text) VALUES (?)", [.text(String(repeating: "\(number) ", count: 300))])
        }
        committed.withLock { $0 = number }
        note()
      }
      try file.emptyLog()
      note()
      file.close()
      note()
    }
    let all = seen.withLock { $0 }.filter { $0.rows > 0 }
    #expect(all.count > 50)
    for (rows, images) in all {
      for (number, image) in images.enumerated() {
        let found = try Self.rows(image)
        #expect(found == rows || found == rows + 1, "image \(number)")
      }
    }
    #expect(try Self.rows(disk.content) == 24)
  }

  @Test("A database commit whose sync fails is not committed")
  func refused() throws {
    let file = try stand.filled("before")
    var error: SQLiteError?
    let refuseLog: @Sendable (String) -> Int32? = { $0.hasSuffix("-wal") ? EIO : nil }
    let paths = SyncCalls.during(includingData: true, refusing: refuseLog) {
      error = caught(SQLiteError.self) {
        try file.transaction { () throws(SQLiteError) in try file.run("INSERT INTO line (text) VALUES ('lost')") }
      }
    }
    #expect(paths == [stand.path + "-wal"])
    #expect(error?.reason == .diskFailed)
    #expect(try stand.lines(file) == ["before"])
    try file.transaction { () throws(SQLiteError) in try file.run("INSERT INTO line (text) VALUES ('after')") }
    #expect(try stand.lines(file) == ["before", "after"])
  }

  @Test("The write-ahead log is synced before the checkpoint, and emptied after the database file is synced")
  func emptying() throws {
    let file = try stand.filled("one", "two")
    let before = try stand.folder.read("kept.db")
    #expect(
      caught(SQLiteError.self) {
        _ = try SyncCalls.during(includingData: true, refusing: { $0.hasSuffix("kept.db-wal") ? EIO : nil }) {
          try file.emptyLog()
        }
      }?.reason == .diskFailed)
    #expect(try stand.folder.read("kept.db") == before, "nothing is in the file that is not safe in the log")
    let log = try stand.folder.read("kept.db-wal")
    #expect(
      caught(SQLiteError.self) {
        _ = try SyncCalls.during(includingData: true, refusing: { $0.hasSuffix("kept.db") ? EIO : nil }) {
          try file.emptyLog()
        }
      }?.reason == .diskFailed)
    #expect(try stand.folder.read("kept.db-wal") == log, "the log stays until the file is safe")
    let paths = try SyncCalls.during(includingData: true) { try file.emptyLog() }
    #expect(paths == [stand.path + "-wal", stand.path])
    #expect(try stand.folder.read("kept.db-wal").isEmpty)
  }
}
