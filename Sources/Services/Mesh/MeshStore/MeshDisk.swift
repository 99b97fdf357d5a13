import Common
import Store

/// What the keeper has done away from the loop; each call may wait for the disk.
protocol MeshDisk: Sendable {
  /// Opens what is there, finishing a wipe that was interrupted, and reads all of it.
  func open() throws(StoreError) -> DiskContents
  /// Does all of it, or nothing. When this returns, it survives a loss of power.
  func commit(_ writes: MeshWrites) throws(StoreError)
  /// Puts the content of a file into a sealed file of its own, which survives a loss of power when this returns. It is erased by
  /// the next `open` unless a row names it.
  func write(_ content: [UInt8], to place: UInt64) throws(StoreError)
  func read(_ place: UInt64) throws(StoreError) -> [UInt8]
  /// Erases the content of a file that no row names, if that can be done now.
  func erase(_ place: UInt64)
  /// Destroys the key and all that is kept, which survives a loss of power when this returns. `open` begins anew.
  ///
  /// - Parameter number: the highest number of a message. Where the wipe is interrupted, the next `open` returns it.
  /// - Returns: whether the key is destroyed too. One that comes from systemd's credentials is not.
  func wipe(keeping number: UInt32) throws(StoreError) -> Bool
}

extension MeshDisk {
  func wipe() throws(StoreError) -> Bool { try wipe(keeping: 0) }
}

/// What is on the disk.
struct DiskContents: Sendable {
  struct Row: Sendable {
    let id: Int64
    let time: UInt64
    let content: [UInt8]
  }

  var rows: [Row] = []
  /// Rows that cannot be opened: damaged, moved, or of another key.
  var unreadable: [Int64] = []
  /// The places of the contents of files that there are.
  var files: Set<UInt64> = []
  /// The highest number of a message before a wipe that this call has finished.
  var highestNumber: UInt32 = 0
  var warning: String?
  var keyOrigin: StoreKey.Origin?
}

/// No disk: all is in memory alone.
final class NoDisk: MeshDisk {
  private let contents = Locked<[UInt64: [UInt8]]>([:])

  func open() -> DiskContents { DiskContents() }
  func commit(_ writes: MeshWrites) {
    contents.withLock { contents in for place in writes.erased { contents[place] = nil } }
  }
  func write(_ content: [UInt8], to place: UInt64) { contents.withLock { $0[place] = content } }
  func read(_ place: UInt64) throws(StoreError) -> [UInt8] {
    guard let content = contents.withLock({ $0[place] }) else { throw StoreError(.missing, "The file is gone.") }
    return content
  }
  func erase(_ place: UInt64) { contents.withLock { $0[place] = nil } }
  func wipe(keeping number: UInt32) -> Bool {
    contents.withLock { $0 = [:] }
    return true
  }
}
