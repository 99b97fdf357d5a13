import Common

/// The numbers of the node. Facts: bitchat.md sections 8, 9 and 16.
extension Limits {
  /// So many packets are remembered, so that their copies are known.
  public static let recentPackets = 10_000
  /// So long a packet is remembered after it was seen last.
  public static let recentTime = Duration.seconds(300)
  /// So far the time of a packet may be from this node's, in milliseconds: iOS drops what is further.
  public static let clockMilliseconds: UInt64 = 120 * 1000
  /// Bytes of the first message of a handshake.
  static let firstHandshakeBytes = 32
  /// The length of the second message of a handshake, which dialect S numbers by itself.
  static let handshakeAnswerBytes = 96
  /// The longest message that is sealed as a packet of dialect S, inflated: its text, and 1 KiB for the rest.
  static let sealedSeedBytes = 65 << 10
}
