import Common

/// The numbers of the node. Facts: bitchat.md sections 8, 9 and 16.
extension Limits {
  /// So many packets are remembered, so that their copies are known.
  public static let recentPackets = 10_000
  /// So long a packet is remembered after it was seen last.
  public static let recentTime = Duration.seconds(300)
  /// So far the time of a packet may be from this node's, in milliseconds: iOS drops what is further.
  public static let clockMilliseconds: UInt64 = 120 * 1000
}
