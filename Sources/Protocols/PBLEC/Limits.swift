/// The numbers of the protocol, and the limits of this implementation. Facts: pblec.md sections 1 to 4.
public enum Limits {
  /// The longest text of a message that is sent, in bytes.
  public static let textBytes = 24
  /// The longest text that an advertisement without flags has room for, in bytes.
  public static let heardTextBytes = 27
  /// The longest report: an advertisement with its scan response behind it.
  static let reportBytes = 62

  /// How long a message is on the air.
  public static let airTime = Duration.seconds(4)
  /// From the beginning of one message to that of the next, at least.
  public static let messagePeriod = Duration.seconds(6)
  /// Messages that a program has sent and that are not said yet, with the one on the air.
  public static let queue = 4
  /// How long a message or a beacon waits for its place on the air.
  public static let longestWait = Duration.seconds(30)
  /// How long the radio may say nothing of a message or a beacon that waits for its place.
  static let longestSilence = Duration.seconds(35)
  /// How long after the last message an address is kept for the next one.
  public static let conversation = Duration.seconds(60)

  /// From the first sighting of a peer's message to that of its next one, at least: less than the period, for packets get lost.
  public static let heardPeriod = Duration.seconds(4)
  /// How long a peer is remembered that is not heard. Its digits come round in the same time.
  public static let peerLife = Duration.seconds(60)
  /// Messages of one peer that are remembered, so that late copies are known.
  static let window = 5
  /// Peers that are remembered.
  public static let peers = 256
  /// Peers that are met in a second, at most.
  static let newPeersPerSecond = 20
  /// Messages of others that are kept.
  public static let messages = 1000
  /// Numbers that peers are told apart by, for people.
  public static let aliases = 1 << 14
  /// How close in time and in signal a message under a new address is to the same under the old one.
  static let addressChange = (time: Duration.seconds(4), decibels: 6)

  /// How long a beacon is on the air.
  public static let beaconTime = Duration.seconds(60)
  /// Notifications that are told in a day, unless somebody wants another number.
  public static let notifications = 2
  /// The highest number of notifications that somebody can want.
  public static let mostNotifications = 100
}
