import Common
import Store

/// Blocking disk operations of the store, called outside of the loop.
protocol MeshDisk: Sendable {
  /// Opens the data, completes an interrupted wipe, and reads everything.
  func open() throws(StoreError) -> DiskContents
  /// Commits all writes or none. They are durable on return.
  func commit(_ writes: MeshWrites) throws(StoreError)
  /// Writes the content of a file to a sealed file, durable on return. The next `open` erases it unless a row refers to
  /// it.
  func write(_ content: [UInt8], to place: UInt64) throws(StoreError)
  func read(_ place: UInt64) throws(StoreError) -> [UInt8]
  /// Erases the content of a file without a row, if possible now.
  func erase(_ place: UInt64)
  /// Destroys the key and all data, durable on return. `open` then begins anew.
  ///
  /// - Parameter number: highest number of a message. The next `open` returns it if the wipe was interrupted.
  /// - Returns: whether the key is destroyed too. A key from systemd's credentials is not.
  func wipe(keeping number: UInt32) throws(StoreError) -> Bool
}

extension MeshDisk {
  func wipe() throws(StoreError) -> Bool { try wipe(keeping: 0) }
}

/// Everything that was read from the disk when the mesh store was opened.
struct DiskContents: Sendable {
  struct Row: Sendable {
    let id: Int64
    let time: UInt64
    let content: [UInt8]
  }

  var rows: [Row] = []
  /// Rows that cannot be decrypted: damaged, moved, or sealed with another key.
  var unreadable: [Int64] = []
  /// Locations of the existing file contents.
  var files: Set<UInt64> = []
  /// Highest number of a message before a wipe that this call has completed.
  var highestNumber: UInt32 = 0
  var warning: String?
  var keyOrigin: StoreKey.Origin?
}

/// A replacement for the disk that holds file contents in memory, for a service without a state directory.
final class NoDisk: MeshDisk {
  private let contents = Locked<[UInt64: [UInt8]]>([:])

  func open() -> DiskContents { DiskContents() }
  func commit(_ writes: MeshWrites) {
    contents.withLock { contents in for place in writes.erased { contents[place] = nil } }
  }
  func write(_ content: [UInt8], to place: UInt64) { contents.withLock { $0[place] = content } }
  func read(_ place: UInt64) throws(StoreError) -> [UInt8] {
    guard let content = contents.withLock({ $0[place] }) else { throw StoreError(.missing, "The file does not exist.") }
    return content
  }
  func erase(_ place: UInt64) { contents.withLock { $0[place] = nil } }
  func wipe(keeping number: UInt32) -> Bool {
    contents.withLock { $0 = [:] }
    return true
  }
}
