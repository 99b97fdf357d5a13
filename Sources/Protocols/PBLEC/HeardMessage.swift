import Common

/// Received message of a peer.
public struct HeardMessage: Hashable, Sendable {
  /// One more for each message since the start of the engine.
  public let number: UInt64
  /// Time of first receipt, in milliseconds since 1970 by this machine's clock.
  public let time: Int64
  /// Number below `Limits.aliases` that identifies the peer for people. It is unique among the stored peers and does
  /// not reveal the address. An address has the same alias during a run, unless another peer uses it.
  public let alias: Int
  public let text: MessageText
  /// Received signal strength in dBm; nil if the controller gives none.
  public let rssi: Int?
}
