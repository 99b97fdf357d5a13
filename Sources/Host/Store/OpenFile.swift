/// An open file; it is closed when the last reference goes.
public protocol OpenFile: Sendable {
  func status() throws(StoreError) -> FileStatus
  /// The first bytes, all of them if there are no more than `count`.
  func read(atMost count: Int) throws(StoreError) -> [UInt8]
  /// Writes all of the bytes, beginning at `offset`.
  func write(_ bytes: [UInt8], at offset: Int) throws(StoreError)
  /// Returns when the content as it is now would survive a loss of power.
  func sync() throws(StoreError)
}
