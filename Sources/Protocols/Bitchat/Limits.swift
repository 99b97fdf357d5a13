/// The numbers of the protocol, and the limits of this implementation. Facts: bitchat.md sections 2, 4, 5, 7 and 9.
public enum Limits {
  /// The longest payload of a packet, inflated or not: what the iOS app takes. 1 MiB of file and its fields.
  public static let payloadBytes = 1_179_760
  /// The most that deflate makes of a byte. A packet that claims more lies.
  public static let inflationRatio = 1032
  /// Shorter payloads are never compressed.
  public static let smallestCompressedPayload = 100
  /// The shortest packet: the header of version 1, and the sender.
  public static let smallestPacket = 22
  /// The most hops that a route can name.
  public static let routeHops = 255
  /// The time to live that a packet begins with.
  public static let timeToLive: UInt8 = 7

  /// The longest value of a TLV with a length of one byte: nicknames, message IDs and private texts.
  public static let shortValueBytes = 255
  /// The most neighbours in an announcement.
  public static let neighbours = 10
  /// The longest geohash in an announcement, in bytes.
  public static let geohashBytes = 12
  /// The longest public text, in characters.
  public static let publicTextCharacters = 60_000
  /// The longest private text that is cut into several messages, in bytes.
  public static let privateTextBytes = 64 << 10
  /// Public messages of one sender in a minute, and in one burst.
  public static let publicMessagesPerMinute = 600

  /// The most fragments of one packet.
  public static let fragments = 10_000
  /// The most fragments of one packet that the Android app puts together.
  public static let fragmentsForAndroid = 256
  /// The most fragments that reach an iPhone in time: it gives a packet up 30 s after the first one, and gets one each 25 ms. A
  /// tenth is left for what goes out beside them.
  public static let fragmentsForIOS = 1080
  /// The longest slice of a fragment, in bytes.
  public static let sliceBytes = 469
  /// Links that take shorter slices carry no fragments.
  public static let smallestSlice = 64
  /// The longest frame that phones take in one PDU.
  public static let frameBytes = 512
  /// The longest frame of a node whose BlueZ, or whose neighbour's, loses longer writes.
  public static let olderFrameBytes = 509
  /// What an iPhone takes at least: a write at its MTU of 185. A link that takes less has its packets cut for itself, or whoever opens
  /// one at the smallest MTU could keep a node from saying anything to anybody.
  public static let commonFrameBytes = 182

  /// The longest content of a file.
  public static let fileBytes = 1 << 20

  /// The size of the filters that we send, in bytes.
  public static let filterBytes = 400
  /// The longest filter that we answer, in bytes.
  public static let acceptedFilterBytes = 1024
  /// The most pings of this node that wait for their answers.
  public static let waitingPings = 64
  /// The most fragment IDs in a request for sync.
  public static let requestedFragments = 60

  /// How long a verification code is valid, in seconds.
  public static let codeSeconds: Int64 = 300
  /// The longest text of a verification code that is looked at, in bytes.
  public static let codeBytes = 4096
}
