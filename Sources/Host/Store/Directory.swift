/// An open directory. Names refer to its direct entries; symbolic links among them are never followed.
public protocol Directory: Sendable {
  /// The path, for messages only.
  var path: String { get }

  func status() throws(StoreError) -> FileStatus
  /// Nil if the entry does not exist.
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
  /// Locks the directory against other processes while it is open; `inUse` if one has locked it.
  func lock() throws(StoreError)
}

extension Directory {
  public func path(of name: String) -> String { "\(path)/\(name)" }
}
