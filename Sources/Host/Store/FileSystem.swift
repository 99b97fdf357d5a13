/// The file system operations that stores use. It is a protocol, so that a test can simulate a disk and make any
/// operation fail.
public protocol FileSystem: Sendable {
  /// The effective user of this process.
  var user: UInt32 { get }

  /// Opens a directory; symbolic links in its path are followed.
  func openDirectory(_ path: String) throws(StoreError) -> any Directory
}

/// An open directory. Names refer to its direct entries; symbolic links among them are never followed.
public protocol Directory: Sendable {
  /// The path, for messages only.
  var path: String { get }

  func status() throws(StoreError) -> FileStatus
  /// The metadata of an entry; nil if the entry does not exist.
  func status(of name: String) throws(StoreError) -> FileStatus?
  /// All entries except `.` and `..` whose names are UTF-8, in no order.
  func names() throws(StoreError) -> [String]

  /// Opens a regular file for reading. The call never blocks, even if the entry is not a regular file.
  func open(_ name: String) throws(StoreError) -> any OpenFile
  /// Creates a new file with mode 0600, open for writing.
  func create(_ name: String) throws(StoreError) -> any OpenFile
  /// Opens a regular file for overwriting its content.
  func openForOverwriting(_ name: String) throws(StoreError) -> any OpenFile
  /// Renames an entry, and replaces a file of the new name.
  func rename(_ name: String, to new: String) throws(StoreError)
  func unlink(_ name: String) throws(StoreError)
  /// Gives a file a second name, in a directory of the same file system (a hard link).
  func link(_ name: String, as new: String, in directory: any Directory) throws(StoreError)

  /// Creates a directory with mode 0700.
  func makeDirectory(_ name: String) throws(StoreError)
  func openDirectory(_ name: String) throws(StoreError) -> any Directory

  /// Synchronises the directory: its present names then survive a loss of power.
  func sync() throws(StoreError)
  /// Locks the directory against other processes while it is open. Throws `inUse` if another process has locked it.
  func lock() throws(StoreError)
}

extension Directory {
  public func path(of name: String) -> String { "\(path)/\(name)" }
}

extension Directory {
  /// Writes the bytes to the file `name` atomically: after a loss of power it has either the old or the new content.
  ///
  /// - Parameters:
  ///   - temporary: the name of the file until it is complete; a file of that name from an interrupted write is
  ///     removed.
  ///   - beforeRename: performs other renames that belong to the same step.
  public func replace(
    _ name: String, with bytes: [UInt8], temporary: String,
    beforeRename: () throws(StoreError) -> Void = { () throws(StoreError) in }
  ) throws(StoreError) {
    if try status(of: temporary) != nil { try unlink(temporary) }
    let file = try create(temporary)
    do throws(StoreError) {
      try file.write(bytes, at: 0)
      try file.sync()
      try beforeRename()
      try rename(temporary, to: name)
    } catch {
      try? unlink(temporary)
      throw error
    }
    try sync()
  }

  /// Overwrites the file's content with zeros, synchronises it to the disk, and removes the file. The directory is not
  /// synchronised.
  ///
  /// A file that cannot be overwritten, for example on a full disk, is still removed, and the error is thrown.
  func erase(_ name: String) throws(StoreError) {
    do throws(StoreError) {
      try openForOverwriting(name).overwrite()
    } catch {
      try unlink(name)
      throw error
    }
    try unlink(name)
  }

  /// The whole file; nil if it does not exist; `tooLarge` if it has more than `limit` bytes.
  public func contents(of name: String, limit: Int) throws(StoreError) -> [UInt8]? {
    guard let status = try status(of: name) else { return nil }
    let isLarge = status.kind == .file && status.size > limit
    let bytes = isLarge ? [] : try open(name).read(atMost: limit + 1)
    guard !isLarge, bytes.count <= limit else {
      throw StoreError(.tooLarge, "\(path(of: name)) has more than \(limit) bytes. It is not a file of this service.")
    }
    return bytes
  }

  /// Opens a directory in this one, and creates it if necessary.
  public func openDirectory(making name: String) throws(StoreError) -> any Directory {
    if try status(of: name) == nil {
      do throws(StoreError) {
        try makeDirectory(name)
      } catch {
        // A part of the service that starts at the same time may have created it.
        guard error.reason == .exists else { throw error }
      }
      try sync()
    }
    return try openDirectory(name)
  }
}

extension OpenFile {
  /// Overwrites the whole file with zeros and synchronises it to the disk.
  func overwrite() throws(StoreError) {
    let size = try status().size
    let portion = 1 << 20
    for offset in stride(from: 0, to: size, by: portion) {
      try write([UInt8](repeating: 0, count: min(portion, size - offset)), at: offset)
    }
    try sync()
  }
}

/// An open file, which is closed when the last reference is released.
public protocol OpenFile: Sendable {
  func status() throws(StoreError) -> FileStatus
  /// The first `count` bytes, or all if there are fewer.
  func read(atMost count: Int) throws(StoreError) -> [UInt8]
  /// Writes all of the bytes, beginning at `offset`.
  func write(_ bytes: [UInt8], at offset: Int) throws(StoreError)
  /// Synchronises the file: its present content then survives a loss of power.
  func sync() throws(StoreError)
}

/// The metadata of a file or a directory.
public struct FileStatus: Hashable, Sendable {
  public enum Kind: Sendable { case file, directory, other }

  public var kind: Kind
  /// The permission bits as for `chmod`: the lower 12 bits of `st_mode`.
  public var mode: UInt32
  public var owner: UInt32
  /// The size in bytes.
  public var size: Int
  /// The time of the last change of the content, in seconds since 1970-01-01 UTC, by the wall clock.
  public var modified: Int64

  public init(kind: Kind, mode: UInt32, owner: UInt32, size: Int, modified: Int64) {
    self.kind = kind
    self.mode = mode
    self.owner = owner
    self.size = size
    self.modified = modified
  }

  /// Throws `wrongOwner` or `wrongMode` unless the entry belongs to `user` and no other user has access.
  func requirePrivate(to user: UInt32, _ path: String) throws(StoreError) {
    guard owner == user else {
      throw StoreError(
        .wrongOwner,
        "\(path) belongs to user \(owner), and this service runs as user \(user): run chown -R \(user) \(path).")
    }
    guard mode & 0o077 == 0 else {
      let octal = String(mode, radix: 8)
      let right = kind == .directory ? "700" : "600"
      throw StoreError(
        .wrongMode,
        "\(path) has mode \(octal), which gives other users access: run chmod \(right) \(path), and consider who may "
          + "have read it.")
    }
  }
}
