import ASN
import Database
import Store

/// The blobs of a server in a database and files, which survive a loss of power.
///
/// The changes since the last `commit` are one transaction; each `apply` is a savepoint in it. If SQLite undoes the
/// whole transaction by itself, for example because the disk is full, the next `commit` fails, so that no lost change
/// is acknowledged.
///
/// `@unchecked Sendable`: one thread at a time uses the store; its owner, a worker, ensures that.
public final class SQLiteBlobStore: BlobStore, @unchecked Sendable {
  /// The database's name in the state directory.
  public static let name = "social.db"
  /// The folder of the blobs that are files.
  public static let folder = "blobs"

  let database: SQLiteFile
  private let files: BlobFiles
  /// The lock against other processes; nil if the owner has it.
  private var state: StateDirectory?
  /// Whether the open transaction has changes of an earlier `apply`.
  private var hasApplied = false
  /// The reason why the changes since the last commit are lost; nil if they are not.
  private var lost: ASN.StoreError?
  /// Blobs whose files were written since the last commit.
  private var written: Set<Sum> = []
  /// Blobs whose files are removed after the next commit.
  private var removable: Set<Sum> = []
  /// Number of blobs whose file was missing when the store was opened.
  public private(set) var missingFiles = 0

  /// Opens the store in a state directory, and creates it if it does not exist.
  public convenience init(in state: StateDirectory) throws(ASN.StoreError) {
    let files: any Directory
    do throws(Store.StoreError) {
      if try state.directory.status(of: Self.name) == nil {
        _ = try state.directory.create(Self.name)
        try state.directory.sync()
      }
      for name in [Self.name] + SQLiteFile.companions(of: Self.name) { try state.requirePrivate(name) }
      files = try state.directory.openDirectory(making: Self.folder)
      try state.requirePrivate(Self.folder)
    } catch {
      throw ASN.StoreError(error)
    }
    try self.init(path: state.directory.path(of: Self.name), files: files, state: state)
  }

  /// Opens the store, and removes files that were never committed.
  ///
  /// - Parameters:
  ///   - path: the database; an empty file is an empty store, and is refused if there are blobs that are files.
  ///   - files: the directory of blobs that are files.
  init(path: String, files: any Directory, state: StateDirectory? = nil) throws(ASN.StoreError) {
    let files = BlobFiles(files)
    self.files = files
    // Files without rows are removed below, so an empty database must not be taken for the store of such files.
    database = try BlobDatabase.open(path) { () throws(ASN.StoreError) in
      guard try !files.hasBlobs() else {
        throw .failed(
          "\(path) is missing or empty, but the folder \(Self.folder) beside it has blobs. Restore the database from a "
            + "backup, or move the folder away.")
      }
    }
    self.state = state
    let rows = try numbers("SELECT count(*) FROM blob WHERE isFile = 1").first ?? 0
    let found = try files.sweep { (sum) throws(ASN.StoreError) in
      try numbers("SELECT 1 FROM blob WHERE sum = ? AND isFile = 1", [.blob(sum.bytes)]).first != nil
    }
    missingFiles = Int(rows) - found
  }

  /// Closes the database. Uncommitted changes are undone.
  public func close() {
    undo()
    database.close()
    state = nil
  }

  // MARK: Blobs

  private static let headerColumns = "sum, owner, author, epoch, name, start, size, isFile, id"

  private struct StoredBlob {
    let header: BlobHeader
    let isFile: Bool
    let id: Int64
  }

  private func stored(_ sum: Sum) throws(ASN.StoreError) -> StoredBlob? {
    try rows("SELECT \(Self.headerColumns) FROM blob WHERE sum = ?", [.blob(sum.bytes)]) { (row) -> StoredBlob? in
      guard let owner = row.key(1), let author = row.key(2), let epoch = row.integer(3), let name = row.text(4),
        let start = row.integer(5), let size = row.integer(6), let isFile = row.integer(7), let id = row.integer(8)
      else { return nil }
      let header = BlobHeader(
        sum: sum, owner: owner, author: author, epoch: UInt64(bitPattern: epoch), name: try? BlobName(name),
        contentStart: Int(start), size: Int(size))
      return StoredBlob(header: header, isFile: isFile != 0, id: id)
    }.first
  }

  public func header(_ sum: Sum) throws(ASN.StoreError) -> BlobHeader? { try stored(sum)?.header }

  public func blob(_ sum: Sum) throws(ASN.StoreError) -> Blob? {
    guard let stored = try stored(sum) else { return nil }
    let bytes =
      stored.isFile
      ? try files.read(sum)
      : try rows("SELECT bytes FROM content WHERE id = ?", [.integer(stored.id)]) { $0.blob(0) }.first
    guard let bytes, let blob = try? Blob(bytes), blob.sum == sum else {
      throw .failed("The blob \(sum.hex) is damaged. Restore the store from a backup.")
    }
    return blob
  }

  public func sums(from first: Sum, through last: Sum, limit: Int) throws(ASN.StoreError) -> [Sum] {
    try rows(
      "SELECT sum FROM blob WHERE sum >= ? AND sum <= ? ORDER BY sum LIMIT ?",
      [.blob(first.bytes), .blob(last.bytes), .integer(Int64(limit))]
    ) { $0.sum(0) }
  }

  /// Sums of all blobs after a given one, in ascending order.
  func allSums(after sum: Sum?, limit: Int) throws(ASN.StoreError) -> [Sum] {
    try rows(
      "SELECT sum FROM blob WHERE sum > ? ORDER BY sum LIMIT ?", [.blob(sum?.bytes ?? []), .integer(Int64(limit))]
    ) { $0.sum(0) }
  }

  // MARK: Links

  private static let linkColumns = "owner, name, sum, epoch"

  public func link(_ owner: UserKey, _ name: String) throws(ASN.StoreError) -> Link? {
    try rows(
      "SELECT \(Self.linkColumns) FROM link WHERE owner = ? AND name = ?", [.blob(owner.bytes), .name(name)]
    ) { $0.link }.first
  }

  public func links(
    _ owner: UserKey, prefix: String, after: String?, limit: Int
  ) throws(ASN.StoreError) -> [Link] {
    // A valid name has no octet 0xFF, so this is behind every name with the prefix.
    let end = Array(prefix.utf8) + [0xFF]
    return try rows(
      """
      SELECT \(Self.linkColumns) FROM link WHERE owner = ? AND name >= ? AND name < ? AND name > ?
      ORDER BY name LIMIT ?
      """,
      [.blob(owner.bytes), .name(prefix), .blob(end), .name(after ?? ""), .integer(Int64(limit))]
    ) { $0.link }
  }

  public func links(to sum: Sum) throws(ASN.StoreError) -> [Link] {
    try rows(
      "SELECT \(Self.linkColumns) FROM link WHERE sum = ? ORDER BY owner, name", [.blob(sum.bytes)]
    ) { $0.link }
  }

  /// Links of all users after a given one, ordered by owner and name.
  func allLinks(after link: Link?, limit: Int) throws(ASN.StoreError) -> [Link] {
    try rows(
      "SELECT \(Self.linkColumns) FROM link WHERE (owner, name) > (?, ?) ORDER BY owner, name LIMIT ?",
      [.blob(link?.owner.bytes ?? []), .name(link?.name ?? ""), .integer(Int64(limit))]
    ) { $0.link }
  }

  public func hiddenLinks(removal: Sum, of sum: Sum?) throws(ASN.StoreError) -> [Link] {
    let columns = Self.linkColumns
    guard let sum else {
      return try rows(
        "SELECT \(columns) FROM hidden WHERE removal = ? ORDER BY owner, name, sum", [.blob(removal.bytes)]
      ) { $0.link }
    }
    return try rows(
      "SELECT \(columns) FROM hidden WHERE removal = ? AND sum = ? ORDER BY owner, name",
      [.blob(removal.bytes), .blob(sum.bytes)]
    ) { $0.link }
  }

  public func linkCount(_ owner: UserKey) throws(ASN.StoreError) -> Int {
    Int(try numbers("SELECT links FROM directory WHERE owner = ?", [.blob(owner.bytes)]).first ?? 0)
  }

  public func users(from first: UserKey, through last: UserKey, limit: Int) throws(ASN.StoreError) -> [UserKey] {
    try rows(
      """
      SELECT owner FROM link WHERE name = \(BlobDatabase.userName) AND owner >= ? AND owner <= ?
      ORDER BY owner LIMIT ?
      """,
      [.blob(first.bytes), .blob(last.bytes), .integer(Int64(limit))]
    ) { $0.key(0) }
  }

  // MARK: Flags and changes

  public func removals(flagging sum: Sum) throws(ASN.StoreError) -> [Sum] {
    try rows("SELECT removal FROM flag WHERE blob = ? ORDER BY removal", [.blob(sum.bytes)]) { $0.sum(0) }
  }

  public func flags(after: Flag?, limit: Int) throws(ASN.StoreError) -> [Flag] {
    try rows(
      "SELECT blob, removal FROM flag WHERE (blob, removal) > (?, ?) ORDER BY blob, removal LIMIT ?",
      [.blob(after?.blob.bytes ?? []), .blob(after?.removal.bytes ?? []), .integer(Int64(limit))]
    ) { (row) -> Flag? in
      guard let blob = row.sum(0), let removal = row.sum(1) else { return nil }
      return Flag(blob, removal: removal)
    }
  }

  public func changes(after number: UInt64, limit: Int) throws(ASN.StoreError) -> [LoggedChange] {
    try rows(
      "SELECT number, kind, sum FROM change WHERE number > ? ORDER BY number LIMIT ?",
      [.integer(Int64(clamping: number)), .integer(Int64(limit))]
    ) { (row) -> LoggedChange? in
      guard let number = row.integer(0), let sum = row.sum(2),
        let kind = row.integer(1).flatMap({ LoggedChange.Kind(rawValue: UInt8(truncatingIfNeeded: $0)) })
      else { return nil }
      return LoggedChange(number: UInt64(bitPattern: number), kind: kind, sum: sum)
    }
  }

  public func usage() throws(ASN.StoreError) -> StoreUsage {
    let found: StoreUsage? = try rows("SELECT blobs, bytes, users, links FROM usage") { (row) -> StoreUsage? in
      guard let blobs = row.integer(0), let bytes = row.integer(1), let users = row.integer(2),
        let links = row.integer(3)
      else { return nil }
      var usage = StoreUsage()
      (usage.blobs, usage.bytes, usage.users) = (Int(blobs), UInt64(clamping: bytes), Int(users))
      usage.links = Int(links)
      return usage
    }.first
    return found ?? StoreUsage()
  }

  public func share(of author: UserKey) throws(ASN.StoreError) -> AuthorShare {
    let found: AuthorShare? = try rows(
      "SELECT bytes, users FROM share WHERE author = ?", [.blob(author.bytes)]
    ) { (row) -> AuthorShare? in
      guard let bytes = row.integer(0), let users = row.integer(1) else { return nil }
      var share = AuthorShare()
      (share.bytes, share.users) = (UInt64(clamping: bytes), Int(users))
      return share
    }.first
    return found ?? AuthorShare()
  }

  // MARK: Writing

  public func apply(_ changes: [StoreChange]) throws(ASN.StoreError) {
    if let lost { throw lost }
    let before = (written: written, removable: removable)
    do throws(ASN.StoreError) {
      if !database.isInTransaction { try run("BEGIN IMMEDIATE") }
      try run("SAVEPOINT step")
      for change in changes { try apply(change) }
      try run("RELEASE step")
    } catch {
      undoStep(error, before.written, before.removable)
      throw error
    }
    hasApplied = true
  }

  public func commit() throws(ASN.StoreError) {
    do throws(ASN.StoreError) {
      if let lost { throw lost }
      guard database.isInTransaction else {
        if hasApplied { throw .failed("SQLite undid a transaction.") }
        return
      }
      try run("COMMIT")
    } catch {
      // A loss of power may yet find the commit whole, if only its sync failed. So new files stay; those without a row
      // are removed when the store is opened.
      written = []
      undo()
      throw error
    }
    for sum in removable {
      // A file that stays is removed when the store is opened.
      try? files.remove(sum)
    }
    (hasApplied, written, removable) = (false, [], [])
  }

  /// Undoes an `apply` that failed before its end; if that is impossible, everything since the last commit is undone.
  private func undoStep(_ error: ASN.StoreError, _ written: Set<Sum>, _ removable: Set<Sum>) {
    guard hasApplied else { return undo() }
    do throws(ASN.StoreError) {
      guard database.isInTransaction else { throw error }
      try run("ROLLBACK TO step")
      try run("RELEASE step")
    } catch {
      // Everything since the last commit is lost, which `commit` reports.
      undo()
      lost = error
      return
    }
    removeFiles(self.written.subtracting(written))
    (self.written, self.removable) = (written, removable)
  }

  /// Undoes all changes since the last commit, for an owner that does not continue.
  public func rollBack() { undo() }

  /// Undoes all changes since the last commit.
  private func undo() {
    if database.isInTransaction { try? run("ROLLBACK") }
    removeFiles(written)
    (hasApplied, lost, written, removable) = (false, nil, [], [])
  }

  private func removeFiles(_ sums: Set<Sum>) {
    for sum in sums { try? files.remove(sum) }
  }

  private func apply(_ change: StoreChange) throws(ASN.StoreError) {
    switch change {
    case .insert(let blob): try insert(blob)
    case .link(let link):
      try run(
        """
        INSERT INTO link (owner, name, sum, epoch) VALUES (?, ?, ?, ?)
        ON CONFLICT (owner, name) DO UPDATE SET sum = excluded.sum, epoch = excluded.epoch
        """, link.values)
    case .unlink(let owner, let name): try unlink(owner, name)
    case .hide(let link, let removal):
      try unlink(link.owner, link.name)
      try hide(link, removal)
    case .rehide(let link, let old, let new):
      try unhide(link, old)
      try hide(link, new)
    case .unhide(let link, let removal): try unhide(link, removal)
    case .flag(let sum, let removal):
      try run("INSERT OR IGNORE INTO flag (blob, removal) VALUES (?, ?)", [.blob(sum.bytes), .blob(removal.bytes)])
    case .unflag(let sum, let removal):
      try run("DELETE FROM flag WHERE blob = ? AND removal = ?", [.blob(sum.bytes), .blob(removal.bytes)])
    case .purge(let sum): try purge(sum)
    }
  }

  private func insert(_ blob: Blob) throws(ASN.StoreError) {
    let header = blob.header
    guard try stored(blob.sum) == nil else { return }
    let isFile = blob.bytes.count > BlobFiles.threshold
    if isFile, removable.remove(blob.sum) == nil {
      try files.write(blob)
      written.insert(blob.sum)
    }
    try run(
      "INSERT INTO blob (sum, owner, author, epoch, name, start, size, isFile) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      [
        .blob(blob.sum.bytes), .blob(header.owner.bytes), .blob(header.author.bytes),
        .integer(Int64(bitPattern: header.epoch)), .text(header.name?.text ?? ""),
        .integer(Int64(header.contentStart)), .integer(Int64(header.size)), .integer(isFile ? 1 : 0),
      ])
    if !isFile {
      try run("INSERT INTO content (id, bytes) VALUES (last_insert_rowid(), ?)", [.blob(blob.bytes)])
    }
    try log(.inserted, blob.sum)
  }

  private func purge(_ sum: Sum) throws(ASN.StoreError) {
    guard let stored = try stored(sum) else { return }
    let value = [SQLiteValue.blob(sum.bytes)]
    try run("DELETE FROM content WHERE id = ?", [.integer(stored.id)])
    for (table, column) in [
      ("blob", "sum"), ("link", "sum"), ("hidden", "sum"), ("hidden", "removal"), ("flag", "blob"),
    ] {
      try run("DELETE FROM \(table) WHERE \(column) = ?", value)
    }
    // Also a file that was written since the last commit is removed after the next one only.
    if stored.isFile { removable.insert(sum) }
    try log(.purged, sum)
  }

  private func unlink(_ owner: UserKey, _ name: String) throws(ASN.StoreError) {
    try run("DELETE FROM link WHERE owner = ? AND name = ?", [.blob(owner.bytes), .name(name)])
  }

  private func hide(_ link: Link, _ removal: Sum) throws(ASN.StoreError) {
    try run(
      // REPLACE would delete a row without the trigger that counts.
      """
      INSERT INTO hidden (owner, name, sum, epoch, removal) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT (removal, owner, name, sum) DO UPDATE SET epoch = excluded.epoch
      """,
      link.values + [.blob(removal.bytes)])
  }

  private func unhide(_ link: Link, _ removal: Sum) throws(ASN.StoreError) {
    try run(
      "DELETE FROM hidden WHERE removal = ? AND owner = ? AND name = ? AND sum = ?",
      [.blob(removal.bytes), .blob(link.owner.bytes), .name(link.name), .blob(link.sum.bytes)])
  }

  private func log(_ kind: LoggedChange.Kind, _ sum: Sum) throws(ASN.StoreError) {
    try run("INSERT INTO change (kind, sum) VALUES (?, ?)", [.integer(Int64(kind.rawValue)), .blob(sum.bytes)])
  }

  // MARK: The database

  /// Writes a copy of all committed data as one database, which also contains the blobs that are files. It can replace
  /// the database, with an empty folder of files.
  ///
  /// Throws if there are changes that are not committed: they are the owner's to commit or to undo.
  ///
  /// - Parameter path: an empty file.
  public func backUp(to path: String) throws(ASN.StoreError) {
    guard !database.isInTransaction, lost == nil else {
      throw .failed("The store has changes that are not committed. Repeat the backup.")
    }
    do throws(SQLiteError) {
      try database.copy(to: path)
    } catch {
      throw ASN.StoreError(error)
    }
    let copy = try BlobDatabase.open(path)
    defer { copy.close() }
    let large = try rows("SELECT id, sum FROM blob WHERE isFile = 1 ORDER BY id") { (row) -> (Int64, Sum)? in
      row.integer(0).flatMap { id in row.sum(1).map { (id, $0) } }
    }
    for (id, sum) in large {
      guard let bytes = try files.read(sum) else { continue }
      do throws(SQLiteError) {
        try copy.transaction { () throws(SQLiteError) in
          try copy.run("INSERT INTO content (id, bytes) VALUES (?, ?)", [.integer(id), .blob(bytes)])
          try copy.run("UPDATE blob SET isFile = 0 WHERE id = ?", [.integer(id)])
        }
      } catch {
        throw ASN.StoreError(error)
      }
    }
  }

  private func run(_ sql: String, _ values: [SQLiteValue] = []) throws(ASN.StoreError) {
    do throws(SQLiteError) {
      try database.run(sql, values)
    } catch {
      throw ASN.StoreError(error)
    }
  }

  private func numbers(_ sql: String, _ values: [SQLiteValue] = []) throws(ASN.StoreError) -> [Int64] {
    try rows(sql, values) { $0.integer(0) }
  }

  /// Queries rows.
  ///
  /// - Parameter body: converts a row; returns nil for a damaged row.
  private func rows<Value>(
    _ sql: String, _ values: [SQLiteValue] = [], _ body: (SQLiteRow) -> Value?
  ) throws(ASN.StoreError) -> [Value] {
    var found: [Value] = []
    var isDamaged = false
    do throws(SQLiteError) {
      try database.query(sql, values) { row in
        if let value = body(row) { found.append(value) } else { isDamaged = true }
      }
    } catch {
      throw ASN.StoreError(error)
    }
    guard !isDamaged else {
      throw .failed("\(database.path) is damaged: a row does not have the form of its table. Restore it from a backup.")
    }
    return found
  }
}

extension SQLiteValue {
  fileprivate static func name(_ text: String) -> SQLiteValue { .blob(Array(text.utf8)) }
}

extension Link {
  fileprivate var values: [SQLiteValue] {
    [.blob(owner.bytes), .name(name), .blob(sum.bytes), .integer(Int64(bitPattern: epoch))]
  }
}

extension SQLiteRow {
  fileprivate func key(_ column: Int32) -> UserKey? { blob(column).flatMap { try? UserKey($0) } }
  fileprivate func sum(_ column: Int32) -> Sum? { blob(column).flatMap { try? Sum($0) } }

  /// The link in the columns owner, name, sum and epoch.
  fileprivate var link: Link? {
    guard let owner = key(0), let name = blob(1).flatMap({ String(validating: $0, as: UTF8.self) }),
      let sum = sum(2), let epoch = integer(3)
    else { return nil }
    return Link(owner: owner, name: name, sum: sum, epoch: UInt64(bitPattern: epoch))
  }
}
