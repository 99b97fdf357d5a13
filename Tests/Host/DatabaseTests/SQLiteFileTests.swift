import Glibc
import Store
import TestSupport
import Testing

@testable import Database

@Suite("SQLite files")
struct SQLiteFileTests {
  let folder: ScratchFolder
  var path: String { folder.path("kept.db") }

  init() throws {
    folder = try ScratchFolder()
    try folder.write([], to: "kept.db")
  }

  func open() throws(SQLiteError) -> SQLiteFile { try SQLiteFile(path: path) }

  /// A database with a table of texts.
  func filled(_ texts: String...) throws -> SQLiteFile {
    let file = try open()
    try file.run("CREATE TABLE IF NOT EXISTS line (id INTEGER PRIMARY KEY, text)")
    for text in texts { try file.run("INSERT INTO line (text) VALUES (?)", [.text(text)]) }
    return file
  }

  func lines(_ file: SQLiteFile) throws -> [String] {
    var lines: [String] = []
    try file.query("SELECT text FROM line ORDER BY id") { lines.append($0.text(0) ?? "?") }
    return lines
  }

  @Test(
    "A database is opened with the pragmas for durability and for erasing deleted data",
    arguments: [
      ("journal_mode", SQLiteValue.text("wal")), ("synchronous", .integer(2)), ("secure_delete", .integer(1)),
      ("locking_mode", .text("exclusive")), ("foreign_keys", .integer(0)), ("trusted_schema", .integer(0)),
      ("cell_size_check", .integer(1)), ("temp_store", .integer(2)),
    ])
  func settings(name: String, value: SQLiteValue) throws {
    let file = try open()
    #expect(try file.pragma(name) == value)
  }

  @Test("Database values of all types are read back unchanged and with their types")
  func values() throws {
    let file = try open()
    try file.run("CREATE TABLE every (number, text, bytes, none, empty)")
    let values: [SQLiteValue] = [.integer(.min), .text("ä\u{0}ö"), .blob([0, 255]), .null, .blob([])]
    #expect(try file.run("INSERT INTO every VALUES (?, ?, ?, ?, ?)", values) == 1)
    var rows = 0
    try file.query("SELECT * FROM every") { row in
      rows += 1
      #expect(row.integer(0) == .min && row.text(0) == nil && row.blob(0) == nil)
      #expect(row.text(1) == "ä\u{0}ö" && row.integer(1) == nil)
      #expect(row.blob(2) == [0, 255] && row.text(2) == nil)
      #expect(row.integer(3) == nil && row.text(3) == nil && row.blob(3) == nil)
      #expect(row.blob(4) == [])
    }
    #expect(rows == 1)
  }

  @Test("A database transaction that fails changes nothing, and the next one succeeds")
  func rollback() throws {
    let file = try filled("before")
    let error = caught(SQLiteError.self) {
      try file.transaction { () throws(SQLiteError) in
        try file.run("INSERT INTO line (text) VALUES ('within')")
        try file.run("INSERT INTO line (id, text) VALUES (1, 'the same number')")
      }
    }
    #expect(error?.reason == .refused)
    #expect(error?.number == 1555, "the extended code, of a primary key")
    #expect(try lines(file) == ["before"])
    try file.transaction { () throws(SQLiteError) in try file.run("INSERT INTO line (text) VALUES ('after')") }
    #expect(try lines(file) == ["before", "after"])
  }

  @Test("A database transaction without disk space changes nothing, and succeeds when there is space again")
  func full() throws {
    let file = try filled("small")
    let large = SQLiteValue.text(String(repeating: "x", count: 50_000))
    try file.limit(pages: 4)
    let error = caught(SQLiteError.self) {
      try file.transaction { () throws(SQLiteError) in try file.run("INSERT INTO line (text) VALUES (?)", [large]) }
    }
    #expect(error?.reason == .full)
    #expect(error?.sentence.contains("Free space") == true)
    #expect(try lines(file) == ["small"])
    try file.limit(pages: 1000)
    try file.run("INSERT INTO line (text) VALUES (?)", [large])
    #expect(try lines(file).count == 2)
  }

  @Test("A database value above the size limit is refused")
  func longValue() throws {
    var options = SQLiteFile.Options()
    options.valueLimit = 1000
    let file = try SQLiteFile(path: path, options: options)
    try file.run("CREATE TABLE line (text)")
    let error = caught(SQLiteError.self) {
      try file.run("INSERT INTO line VALUES (?)", [.blob([UInt8](repeating: 1, count: 2000))])
    }
    #expect(error?.reason == .refused)
  }

  @Test("A database file that is missing, locked or not a database gives a different error in each case")
  func refusals() throws {
    try folder.write([UInt8](repeating: 7, count: 5000), to: "other.db")
    #expect(caught(SQLiteError.self) { try SQLiteFile(path: folder.path("other.db")) }?.reason == .notADatabase)
    #expect(caught(SQLiteError.self) { try SQLiteFile(path: folder.path("none.db")) }?.reason == .missing)
    let file = try filled("one")
    #expect(caught(SQLiteError.self) { try open() }?.reason == .locked)
    #expect(try lines(file) == ["one"])
    let error = caught(SQLiteError.self) { try file.run("no statement at all") }
    #expect(error?.reason == .failed)
  }

  @Test("A damaged database page is reported as damage, and the rows before it are returned")
  func damage() throws {
    let file = try filled()
    for number in 0..<200 {
      try file.run("INSERT INTO line (text) VALUES (?)", [.text("\(number)" + String(repeating: "-", count: 400))])
    }
    file.close()
    var bytes = try folder.read("kept.db")
    for place in 40_000..<48_000 { bytes[place] = 0xA5 }
    try folder.write(bytes, to: "kept.db")
    let damaged = try open()
    var count = 0
    let error = caught(SQLiteError.self) { try damaged.query("SELECT text FROM line ORDER BY id") { _ in count += 1 } }
    #expect(error?.reason == .damaged)
    #expect(count > 0 && count < 200)
  }

  @Test("The database's write-ahead log has mode 600, is the only other file, and is removed at closing")
  func files() throws {
    let file = try filled("one")
    #expect(try Set(folder.files().keys) == ["kept.db", "kept.db-wal"])
    #expect(try folder.mode("kept.db-wal") == 0o600)
    file.close()
    #expect(try Set(folder.files().keys) == ["kept.db"])
    let again = try filled("two")
    again.close(keepsLog: true)
    #expect(try folder.read("kept.db-wal").count > 0)
  }

  @Test("After SIGKILL, committed database rows are present and uncommitted ones are not")
  func killed() throws {
    let file = try filled("one", "two")
    try file.run("BEGIN")
    try file.run("INSERT INTO line (text) VALUES ('three')")
    // Copies the files at this moment, as a killed process leaves them.
    let copy = try ScratchFolder()
    for (name, bytes) in try folder.files() { try copy.write(bytes, to: name) }
    let found = try SQLiteFile(path: copy.path("kept.db"))
    #expect(try lines(found) == ["one", "two"])
  }

  @Test("The content of deleted database rows is in no file once the write-ahead log is emptied")
  func deleted() throws {
    let file = try filled("a secret line", "another line")
    try file.run("DELETE FROM line WHERE id = 1")
    try file.emptyLog()
    let files = try folder.files()
    #expect(!files.isEmpty)
    for (_, bytes) in files { #expect(!contains(bytes, Array("a secret line".utf8))) }
    #expect(files.values.contains { contains($0, Array("another line".utf8)) })
  }

  @Test("Each SQLite result code has a reason and a printable sentence")
  func codes() {
    let table: [(number: Int32, system: Int32, reason: SQLiteError.Reason)] = [
      (13, 0, .full), (11, 0, .damaged), (267, 0, .damaged), (26, 0, .notADatabase), (5, 0, .locked), (517, 0, .locked),
      (6, 0, .locked), (8, 0, .readOnly), (1032, 0, .readOnly), (10, EIO, .diskFailed), (778, EIO, .diskFailed),
      (778, EDQUOT, .full), (1034, EROFS, .readOnly), (3082, 0, .failed), (14, ENOENT, .missing),
      (14, EACCES, .notPermitted), (3, 0, .notPermitted), (18, 0, .refused), (19, 0, .refused), (7, 0, .failed),
      (1, 0, .failed),
    ]
    for row in table {
      let error = SQLiteError(row.number, systemError: row.system, "written", "/state\u{1B}[2J/file")
      #expect(error.reason == row.reason, "\(row.number)")
      #expect(error.number == row.number)
      #expect(!error.sentence.contains("\u{1B}") && error.sentence.hasSuffix("."))
    }
  }

  @Test("A store reports an error of its database with its own reason and the same sentence")
  func storeErrors() {
    let table: [(reason: SQLiteError.Reason, expected: StoreError.Reason)] = [
      (.full, .diskFull), (.damaged, .damaged), (.notADatabase, .damaged), (.diskFailed, .diskFailed),
      (.locked, .inUse), (.readOnly, .readOnly), (.notPermitted, .notPermitted), (.missing, .missing),
      (.refused, .tooLarge), (.failed, .failed),
    ]
    #expect(table.count == SQLiteError.Reason.allCases.count)
    for row in table {
      #expect(StoreError(SQLiteError(row.reason, "A sentence.")) == StoreError(row.expected, "A sentence."))
    }
  }
}
