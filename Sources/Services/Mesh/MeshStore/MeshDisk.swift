import Store

/// What the keeper has done away from the loop; each call may wait for the disk.
protocol MeshDisk: Sendable {
  /// Opens what is there, finishing a wipe that was interrupted, and reads all of it.
  func open() throws(StoreError) -> DiskContents
  /// Does all of it, or nothing. When this returns, it survives a loss of power.
  func commit(_ writes: MeshWrites) throws(StoreError)
  /// Destroys the key and all that is kept, which survives a loss of power when this returns. `open` begins anew.
  ///
  /// - Returns: whether the key is destroyed too. One that comes from systemd's credentials is not.
  func wipe() throws(StoreError) -> Bool
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
  var warning: String?
  var keyOrigin: StoreKey.Origin?
}

/// No disk: all is in memory alone.
struct NoDisk: MeshDisk {
  func open() -> DiskContents { DiskContents() }
  func commit(_ writes: MeshWrites) {}
  func wipe() -> Bool { true }
}
