import Common

/// Protocol constants, and limits of this implementation. Facts: bitchat.md sections 2, 4, 5, 7 and 9.
public enum Limits {
  /// Maximum payload of a packet in bytes, inflated or not. It holds a file of 1 MiB with its fields, as in the iOS
  /// app.
  public static let payloadBytes = 1_179_760
  /// Maximum expansion by inflate. Packets that claim more are invalid.
  public static let inflationRatio = 1032
  /// Minimum length of a payload that is compressed, in bytes.
  public static let smallestCompressedPayload = 100
  /// Minimum length of a packet, in bytes: header of version 1 and sender.
  public static let smallestPacket = 22
  /// Maximum number of hops that a packet's route may name.
  public static let routeHops = 255
  /// TTL with which this node sends its own packets.
  public static let timeToLive: UInt8 = 7

  /// Maximum value of a TLV with a length of one byte, in bytes: nicknames, message IDs and private texts.
  public static let shortValueBytes = 255
  /// Maximum number of neighbours that an announcement names.
  public static let neighbours = 10
  /// Maximum length of a geohash in an announcement, in bytes.
  public static let geohashBytes = 12
  /// Maximum length of a public text, in characters.
  public static let publicTextCharacters = 60_000
  /// Maximum length of a private text, in bytes. It is split into several messages.
  public static let privateTextBytes = 64 << 10
  /// Maximum public messages per sender and minute, and per burst.
  public static let publicMessagesPerMinute = 600

  /// Maximum number of fragments into which one packet may be cut.
  public static let fragments = 10_000
  /// Maximum fragments of a packet that the Android app can reassemble.
  public static let fragmentsForAndroid = 256
  /// Maximum fragments of a packet that reaches an iPhone in time. The iPhone receives one fragment per 25 ms, and
  /// abandons a packet 30 s after its first one. A tenth of this time is reserved for other packets.
  public static let fragmentsForIOS = 1080
  /// Maximum slice of a fragment, in bytes.
  public static let sliceBytes = 469
  /// Minimum slice of a fragment, in bytes. Links that require shorter slices carry no fragments.
  public static let smallestSlice = 64
  /// Maximum frame that phones accept in one PDU, in bytes.
  public static let frameBytes = 512
  /// Maximum frame in bytes where BlueZ, on this node or on a neighbour, loses longer writes.
  public static let olderFrameBytes = 509
  /// Frame size, in bytes, that every iPhone accepts: a write at its MTU of 185. Packets for a narrower link are
  /// fragmented for that link alone; otherwise one link at the minimum MTU could stop the node from sending to others.
  public static let commonFrameBytes = 182

  /// Time between fragments on a link to a phone. Facts: bitchat.md section 7.
  package static let fragmentPause = Duration.milliseconds(25)
  /// Maximum delay of a fragment that does not postpone the next one. A busy machine wakes up late each time, and the
  /// delays would add up.
  package static let fragmentLateness = Duration.milliseconds(5)

  /// Maximum content of a file, in bytes.
  public static let fileBytes = 1 << 20

  /// Size of the filters that this node sends, in bytes.
  public static let filterBytes = 400
  /// Maximum filter that this node answers, in bytes.
  public static let acceptedFilterBytes = 1024
  /// Maximum pings of this node that await their answers.
  public static let waitingPings = 64
  /// Maximum fragment IDs in a sync request.
  public static let requestedFragments = 60

  /// Validity of a verification code, in seconds.
  public static let codeSeconds: Int64 = 300
  /// Maximum text of a verification code that is parsed, in bytes.
  public static let codeBytes = 4096
}

/// Limits of the node. Facts: bitchat.md sections 8, 9 and 16.
extension Limits {
  /// Maximum remembered packets, for the detection of copies.
  public static let recentPackets = 10_000
  /// Time for which a packet is remembered after its last arrival.
  public static let recentTime = Duration.seconds(300)
  /// Maximum difference between a packet's timestamp and this node's clock, in milliseconds. iOS uses the same limit.
  public static let clockMilliseconds: UInt64 = 120 * 1000
  /// Length of the first handshake message, in bytes.
  package static let firstHandshakeBytes = 32
  /// Length of the second handshake message, in bytes.
  package static let handshakeAnswerBytes = 96
}
