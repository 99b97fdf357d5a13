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
