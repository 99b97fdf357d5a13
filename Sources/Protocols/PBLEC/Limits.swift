/// Values of the protocol, and limits of this implementation. Facts: pblec.md sections 1 to 4.
public enum Limits {
  /// Maximum length of the text of a sent message, in bytes.
  public static let textBytes = 24
  /// Maximum length of a text in an advertisement without flags, in bytes.
  public static let heardTextBytes = 27
  /// Maximum length of a report in bytes: an advertisement followed by its scan response.
  static let reportBytes = 62

  /// Broadcast time of a message.
  public static let airTime = Duration.seconds(4)
  /// Minimum interval between the starts of two messages.
  public static let messagePeriod = Duration.seconds(6)
  /// Maximum pending messages of local programs, including the one being broadcast.
  public static let queue = 4
  /// Maximum wait of a message or a beacon for an advertising slot.
  public static let longestWait = Duration.seconds(30)
  /// Maximum time without an answer of the radio to a request for a slot.
  static let longestSilence = Duration.seconds(35)
  /// Time after the last message for which its address is retained for the next one.
  public static let conversation = Duration.seconds(60)

  /// Minimum interval between the first reports of two messages of a peer. It is below `messagePeriod`, because reports
  /// get lost.
  public static let heardPeriod = Duration.seconds(4)
  /// Time after which a peer that is not received is removed. A sender uses all of its ten digits within the same time.
  public static let peerLife = Duration.seconds(60)
  /// Number of messages of a peer that are stored to recognize late copies.
  static let window = 5
  /// Maximum stored peers.
  public static let peers = 256
  /// Maximum new peers in a second.
  static let newPeersPerSecond = 20
  /// Number of received messages that are stored.
  public static let messages = 1000
  /// Number of different aliases of peers: 14 bits.
  public static let aliases = 1 << 14
  /// Maximum differences in time and in signal strength between a message under a new address and its copy under the
  /// old one.
  static let addressChange = (time: Duration.seconds(4), decibels: 6)

  /// Broadcast time of a beacon.
  public static let beaconTime = Duration.seconds(60)
  /// Default maximum of notifications reported in a day.
  public static let notifications = 2
  /// Upper bound of the configurable maximum of notifications in a day.
  public static let mostNotifications = 100
}
