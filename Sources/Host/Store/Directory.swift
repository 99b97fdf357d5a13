/// An open directory. Names are of entries directly in it; links among them are never followed.
public protocol Directory: Sendable {
  /// For messages only.
  var path: String { get }

  func status() throws(StoreError) -> FileStatus
  /// Nil if there is no such entry.
  func status(of name: String) throws(StoreError) -> FileStatus?
  /// All entries but `.` and `..` whose names are UTF-8, in no order.
  func names() throws(StoreError) -> [String]

  /// Opens a regular file for reading; without waiting, whatever it turns out to be.
  func open(_ name: String) throws(StoreError) -> any OpenFile
  /// Makes a new file of mode 0600, open for writing.
  func create(_ name: String) throws(StoreError) -> any OpenFile
  /// Opens a regular file for writing over what is in it.
  func openForOverwriting(_ name: String) throws(StoreError) -> any OpenFile
  /// Gives an entry another name, in place of whatever file had that one.
  func rename(_ name: String, to new: String) throws(StoreError)
  func unlink(_ name: String) throws(StoreError)

  /// Makes a directory of mode 0700.
  func makeDirectory(_ name: String) throws(StoreError)
  func openDirectory(_ name: String) throws(StoreError) -> any Directory

  /// Returns when all names as they are now would survive a loss of power.
  func sync() throws(StoreError)
  /// Keeps other processes from locking it for as long as it is open; `inUse` if one has locked it.
  func lock() throws(StoreError)
}

extension Directory {
  public func path(of name: String) -> String { "\(path)/\(name)" }
}
