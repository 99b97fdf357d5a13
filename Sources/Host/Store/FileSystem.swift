/// The system calls of this room, so that a test can stand in for the disk and let any single one fail.
public protocol FileSystem: Sendable {
  /// The user that this process acts as.
  var user: UInt32 { get }

  /// Opens a directory; links on the way to it are followed.
  func openDirectory(_ path: String) throws(StoreError) -> any Directory
}
