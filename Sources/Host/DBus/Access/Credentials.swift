/// The user, process and groups of a connection, which the bus received from the kernel.
public struct Credentials: Hashable, Sendable {
  public let uid: UInt32
  /// Nil if the bus does not report it.
  public let pid: UInt32?
  /// All groups, including the primary one; empty if the bus does not report them.
  public let gids: [UInt32]

  public init(uid: UInt32, pid: UInt32?, gids: [UInt32]) {
    self.uid = uid
    self.pid = pid
    self.gids = gids
  }
}
