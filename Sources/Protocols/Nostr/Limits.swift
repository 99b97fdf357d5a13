/// The numbers of the protocol, and the limits of this implementation. Facts: bitchat.md section 11.
public enum NostrLimits {
  // MARK: Events

  /// Maximum length of an event as JSON, in bytes. A longer event is dropped.
  public static let eventBytes = 64 << 10
  /// Maximum length of a relay's message, in bytes. It exceeds that of an event, because a stranger chooses the length
  /// of an event: only a longer message is the relay's fault.
  public static let messageBytes = 256 << 10
  /// Tags of an event, texts of a tag, and bytes of such a text.
  public static let tags = 64
  public static let tagTexts = 16
  public static let tagTextBytes = 1024
  /// Maximum depth of arrays and objects in a relay's message.
  public static let depth = 16
  /// Maximum length of a private text, and so of an embedded packet in its text form, in bytes. An envelope with a
  /// longer text would exceed `eventBytes`.
  public static let contentBytes = 24 << 10
  /// Bytes of a relay's text (a notice, a reason) that are preserved.
  public static let reasonBytes = 256
  /// Maximum length of a relay's challenge, and of a subscription ID, in bytes.
  public static let challengeBytes = 256
  public static let subscriptionBytes = 64

  // MARK: Time

  /// Maximum age of a private message. Relays are asked for messages of this period.
  public static let lookback = Duration.seconds(24 * 3600)
  /// Maximum offset of the times of a wrap and a seal, in either direction, in the app's form.
  public static let appJitter = Duration.seconds(15 * 60)
  /// Maximum offset of the times of a wrap and a seal into the past: NIP-59 and the Android app.
  public static let nip59Jitter = Duration.seconds(2 * 24 * 3600)
  /// Tolerated difference between clocks.
  public static let clockTolerance = Duration.seconds(5 * 60)
  /// How old an event of a geohash channel may be.
  public static let channelLookback = Duration.seconds(3600)

  // MARK: Relays

  /// Relays of one purpose.
  public static let relays = 8
  /// Maximum length of a relay's address, in bytes.
  public static let addressBytes = 256
  /// Stored events that a subscription requests. They do not count as a flood.
  public static let storedEvents = 500
  /// Maximum events per second on one connection, without the stored ones.
  public static let eventsPerSecond = 100
  /// Messages in a second from one connection that are not events.
  public static let otherMessagesPerSecond = 50
  /// Events with a wrong ID or signature, or outside of a subscription, before a connection is closed.
  public static let relayMistakes = 20
  /// Maximum time for making a connection, including the proxy and TLS.
  public static let connectTime = Duration.seconds(90)
  /// Maximum time for a relay to answer a subscription or a ping, and to send the next stored event.
  public static let answerTime = Duration.seconds(60)
  /// Maximum time for a relay to accept or reject an event of ours, after the stored events that it sends.
  public static let verdictTime = Duration.seconds(120)
  /// The pause without a message after which a relay is pinged.
  public static let idleTime = Duration.seconds(60)
  /// How long a subscription lasts before it is renewed.
  public static let subscriptionLife = Duration.seconds(30 * 60)
  /// The pause after a relay has closed a subscription; it doubles up to `longestPause`.
  public static let firstPause = Duration.seconds(2)
  public static let longestPause = Duration.seconds(600)
  /// Minimum duration of a connection after which the pause starts at `firstPause` again.
  public static let stableTime = Duration.seconds(120)
  /// Events that a connection is sent before it has answered the first of them.
  public static let unansweredEvents = 16

  // MARK: Outbox

  /// Messages that wait, in all and for one recipient. Facts: bitchat.md section 8.4.
  public static let outbox = 1000
  public static let outboxOfOne = 100
  /// Receipts that wait.
  public static let receipts = 500
  /// Maximum time for sending a message again, and maximum number of attempts.
  public static let messageLife = Duration.seconds(24 * 3600)
  public static let messageAttempts = 8
  /// The pause before a message that a relay has accepted is sent again; it doubles.
  public static let receiptWait = Duration.seconds(300)
  /// The pause before a message that no relay has accepted is sent again; it doubles up to `longestPause`.
  public static let publishPause = Duration.seconds(10)
  /// The shortest time between two receipts: 3 a second at most.
  public static let receiptSpacing = Duration.milliseconds(350)
  /// Maximum length of a message ID, in bytes.
  public static let messageIDBytes = 255

  // MARK: Memory

  /// Maximum number of remembered event IDs, so that an event from several relays is handled once.
  public static let seenEvents = 10_000
  /// Contacts whose messages are accepted.
  public static let contacts = 1000
  /// Envelopes that are opened in a second on average, and the number of seconds whose envelopes may come at once. The
  /// sender is unknown before an envelope is opened.
  public static let envelopesPerSecond = 50
  static let envelopeBurst = 40

  // MARK: Geohash channels

  /// Geohash channels at a time, and characters of a geohash.
  public static let channels = 4
  public static let geohashCharacters = 12
  /// Maximum length of a text and of a nickname in a channel, in bytes.
  public static let channelTextBytes = 4096
  public static let nicknameBytes = 128
  /// The range of the pause between two presence events, and the longest geohash that has them, in characters.
  public static let presencePause = 40.0...80.0
  public static let presenceCharacters = 5
  /// Candidates for the key of a channel.
  public static let keyCandidates: UInt32 = 10
}
