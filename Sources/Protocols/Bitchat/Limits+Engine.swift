import Common

/// Limits of the node. Facts: bitchat.md sections 8, 9 and 16.
extension Limits {
  /// Maximum remembered packets, for the detection of copies.
  public static let recentPackets = 10_000
  /// Time for which a packet is remembered after its last arrival.
  public static let recentTime = Duration.seconds(300)
  /// Maximum difference between a packet's timestamp and this node's clock, in milliseconds. iOS uses the same limit.
  public static let clockMilliseconds: UInt64 = 120 * 1000
  /// Length of the first handshake message, in bytes.
  static let firstHandshakeBytes = 32
  /// Length of the second handshake message, in bytes. Dialect S has a packet type of its own for it.
  static let handshakeAnswerBytes = 96
  /// Maximum inflated length of a sealed packet of dialect S, in bytes: 64 KiB of text and 1 KiB for other fields.
  static let sealedSeedBytes = 65 << 10
}
