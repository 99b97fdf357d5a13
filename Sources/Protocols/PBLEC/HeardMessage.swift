import Common

/// A message of a peer.
public struct HeardMessage: Hashable, Sendable {
  /// One more for each message since the start; the first is 1.
  public let number: UInt64
  /// When it was first heard, in milliseconds since 1970 by this machine's clock.
  public let time: Int64
  /// What the peer is told apart by for people: below `Limits.aliases`, of no other peer that is remembered, and the same for one
  /// address as long as this machine's service runs. It tells nothing of the address.
  public let alias: Int
  public let text: MessageText
  /// Received signal strength in dBm; nil where the radio does not know.
  public let rssi: Int?
}
