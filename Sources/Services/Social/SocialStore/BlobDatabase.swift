import ASN
import Database

/// The layout of the database of blobs.
///
/// | table | row |
/// |---|---|
/// | `blob` | the header of a blob, and whether its octets are in `content` or in a file |
/// | `content` | the octets of a blob of at most 64 KiB |
/// | `link` | a name in a user's directory |
/// | `hidden` | a link that a removal took out of its directory |
/// | `flag` | a removal's mark on a blob |
/// | `change` | a change of a blob, under an increasing number |
/// | `directory`, `share`, `usage` | counts for each owner, each author and in total; triggers maintain them |
///
/// Keys, sums and names are values of the type BLOB, so that SQLite orders them by their octets.
enum BlobDatabase {
  /// The number of the layout, in the database's `user_version`.
  static let layout: Int64 = 2
  /// The name `asn/user` as a literal, for the index of users.
  static let userName = "x'61736e2f75736572'"

  private static let tables = [
    """
    CREATE TABLE blob (
      id INTEGER PRIMARY KEY, sum BLOB NOT NULL UNIQUE, owner BLOB NOT NULL, author BLOB NOT NULL,
      epoch INTEGER NOT NULL, name TEXT NOT NULL, start INTEGER NOT NULL, size INTEGER NOT NULL,
      isFile INTEGER NOT NULL) STRICT
    """,
    "CREATE TABLE content (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL) STRICT",
    """
    CREATE TABLE link (
      owner BLOB NOT NULL, name BLOB NOT NULL, sum BLOB NOT NULL, epoch INTEGER NOT NULL,
      PRIMARY KEY (owner, name)) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX linkSum ON link (sum)",
    "CREATE INDEX linkUser ON link (owner) WHERE name = \(userName)",
    """
    CREATE TABLE hidden (
      removal BLOB NOT NULL, owner BLOB NOT NULL, name BLOB NOT NULL, sum BLOB NOT NULL, epoch INTEGER NOT NULL,
      PRIMARY KEY (removal, owner, name, sum)) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX hiddenSum ON hidden (sum)",
    "CREATE TABLE flag (blob BLOB NOT NULL, removal BLOB NOT NULL, PRIMARY KEY (blob, removal)) STRICT, WITHOUT ROWID",
    // AUTOINCREMENT: a number is never used again.
    "CREATE TABLE change (number INTEGER PRIMARY KEY AUTOINCREMENT, kind INTEGER NOT NULL, sum BLOB NOT NULL) STRICT",
    "CREATE TABLE directory (owner BLOB PRIMARY KEY, links INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    """
    CREATE TABLE usage (
      id INTEGER PRIMARY KEY, blobs INTEGER NOT NULL, bytes INTEGER NOT NULL, users INTEGER NOT NULL) STRICT
    """,
    "INSERT INTO usage (id, blobs, bytes, users) VALUES (0, 0, 0, 0)",
    """
    CREATE TRIGGER blobAdded AFTER INSERT ON blob BEGIN
      UPDATE usage SET blobs = blobs + 1, bytes = bytes + new.size;
    END
    """,
    """
    CREATE TRIGGER blobRemoved AFTER DELETE ON blob BEGIN
      UPDATE usage SET blobs = blobs - 1, bytes = bytes - old.size;
    END
    """,
    """
    CREATE TRIGGER linkAdded AFTER INSERT ON link BEGIN
      INSERT INTO directory (owner, links) VALUES (new.owner, 1) ON CONFLICT (owner) DO UPDATE SET links = links + 1;
      UPDATE usage SET users = users + 1 WHERE new.name = \(userName);
    END
    """,
    """
    CREATE TRIGGER linkRemoved AFTER DELETE ON link BEGIN
      UPDATE directory SET links = links - 1 WHERE owner = old.owner;
      DELETE FROM directory WHERE owner = old.owner AND links = 0;
      UPDATE usage SET users = users - 1 WHERE old.name = \(userName);
    END
    """,
  ]

  /// The statements that lead from layout 1 to layout 2, which also has the shares of authors and the number of all
  /// links. They run when a database of layout 1 is opened.
  private static let counts = [
    """
    CREATE TABLE share (
      author BLOB PRIMARY KEY, bytes INTEGER NOT NULL, users INTEGER NOT NULL) STRICT, WITHOUT ROWID
    """,
    """
    INSERT INTO share (author, bytes, users)
    SELECT author, sum(size), count(*) FILTER (WHERE name = 'asn/user') FROM blob GROUP BY author
    """,
    """
    CREATE TRIGGER authorAdded AFTER INSERT ON blob BEGIN
      INSERT INTO share (author, bytes, users) VALUES (new.author, new.size, new.name = 'asn/user')
      ON CONFLICT (author) DO UPDATE SET bytes = bytes + excluded.bytes, users = users + excluded.users;
    END
    """,
    """
    CREATE TRIGGER authorRemoved AFTER DELETE ON blob BEGIN
      UPDATE share SET bytes = bytes - old.size, users = users - (old.name = 'asn/user') WHERE author = old.author;
      DELETE FROM share WHERE author = old.author AND bytes <= 0;
    END
    """,
    "ALTER TABLE usage ADD COLUMN links INTEGER NOT NULL DEFAULT 0",
    "UPDATE usage SET links = (SELECT count(*) FROM link) + (SELECT count(*) FROM hidden)",
    "CREATE TRIGGER linkCounted AFTER INSERT ON link BEGIN UPDATE usage SET links = links + 1; END",
    "CREATE TRIGGER linkUncounted AFTER DELETE ON link BEGIN UPDATE usage SET links = links - 1; END",
    "CREATE TRIGGER hiddenCounted AFTER INSERT ON hidden BEGIN UPDATE usage SET links = links + 1; END",
    "CREATE TRIGGER hiddenUncounted AFTER DELETE ON hidden BEGIN UPDATE usage SET links = links - 1; END",
  ]

  /// Opens the database, and creates the tables if the file is empty.
  ///
  /// - Parameter beforeCreating: called before the tables are created; if it throws, the file stays empty.
  static func open(
    _ path: String, beforeCreating: () throws(ASN.StoreError) -> Void = {}
  ) throws(ASN.StoreError) -> SQLiteFile {
    let file: SQLiteFile
    let found: SQLiteValue
    do throws(SQLiteError) {
      var options = SQLiteFile.Options()
      options.valueLimit = Int32(BlobFiles.limit)
      options.cacheKilobytes = 16 * 1024
      options.logPages = 1000
      file = try SQLiteFile(path: path, options: options)
      found = try file.pragma("user_version")
    } catch {
      throw ASN.StoreError(error)
    }
    switch found {
    case .integer(layout): return file
    case .integer(0):
      try beforeCreating()
      try run(tables + counts, file)
    case .integer(1): try run(counts, file)
    default: throw .failed("\(path) was written by a later release. Install that release, or move the file away.")
    }
    return file
  }

  /// Runs the statements that lead to the present layout, all or none.
  private static func run(_ statements: [String], _ file: SQLiteFile) throws(ASN.StoreError) {
    do throws(SQLiteError) {
      try file.transaction { () throws(SQLiteError) in
        for statement in statements { try file.run(statement) }
        try file.run("PRAGMA user_version = \(layout)")
      }
    } catch {
      throw ASN.StoreError(error)
    }
  }
}
