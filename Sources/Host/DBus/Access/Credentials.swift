/// Who is behind a connection, as the kernel told the bus.
public struct Credentials: Hashable, Sendable {
  public let uid: UInt32
  /// Nil where the bus does not tell.
  public let pid: UInt32?
  /// All groups, the primary one included; empty where the bus does not tell.
  public let gids: [UInt32]

  public init(uid: UInt32, pid: UInt32?, gids: [UInt32]) {
    self.uid = uid
    self.pid = pid
    self.gids = gids
  }
}
