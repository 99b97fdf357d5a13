/// The user, process and groups behind a connection, as the bus has them from the kernel.
public struct Credentials: Hashable, Sendable {
  public let uid: UInt32
  /// Nil where the bus does not say.
  public let pid: UInt32?
  /// All groups, the primary one included; empty where the bus does not say.
  public let gids: [UInt32]

  public init(uid: UInt32, pid: UInt32?, gids: [UInt32]) {
    self.uid = uid
    self.pid = pid
    self.gids = gids
  }
}
