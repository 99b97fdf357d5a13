/// The file system calls of this target, so that a test can replace the disk and let any call fail.
public protocol FileSystem: Sendable {
  /// The effective user of this process.
  var user: UInt32 { get }

  /// Opens a directory; symbolic links in its path are followed.
  func openDirectory(_ path: String) throws(StoreError) -> any Directory
}
