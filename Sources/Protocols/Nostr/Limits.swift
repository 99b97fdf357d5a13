/// The numbers of the protocol, and the limits of this implementation. Facts: bitchat.md section 11.
public enum NostrLimits {
  // MARK: Events

  /// Maximum length of an event as JSON, in bytes. A longer event is dropped.
  public static let eventBytes = 64 << 10
  /// Maximum length of a relay's message, in bytes. It exceeds that of an event, because a stranger chooses the length
  /// of an event: only a longer message is the relay's fault.
  public static let messageBytes = 256 << 10
  /// Maximum number of tags of an event; `tagTexts` and `tagTextBytes` limit the texts of a tag and the length of a
  /// text.
  public static let tags = 64
  public static let tagTexts = 16
  public static let tagTextBytes = 1024
  /// Maximum depth of arrays and objects in a relay's message.
  public static let depth = 16
  /// Maximum length of a private text, and so of an embedded packet in its text form, in bytes. An envelope with a
  /// longer text would exceed `eventBytes`.
  public static let contentBytes = 24 << 10
  /// Maximum stored length of a relay's notice or reason, in bytes. A longer text is cut.
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
  /// Tolerated difference between the clocks of sender and receiver.
  public static let clockTolerance = Duration.seconds(5 * 60)
  /// Maximum age of a received event of a geohash channel.
  public static let channelLookback = Duration.seconds(3600)

  // MARK: Relays

  /// Maximum number of relays for one purpose (`RelayPurpose`).
  public static let relays = 8
  /// Maximum length of a relay's address, in bytes.
  public static let addressBytes = 256
  /// Maximum number of stored events that a subscription requests. They do not count as a flood.
  public static let storedEvents = 500
  /// Maximum events per second on one connection, without the stored ones.
  public static let eventsPerSecond = 100
  /// Maximum messages per second on one connection that are not events.
  public static let otherMessagesPerSecond = 50
  /// Number of events with a wrong ID or signature, or without a subscription, after which a connection is closed.
  public static let relayMistakes = 20
  /// Maximum time for making a connection, including the proxy and TLS.
  public static let connectTime = Duration.seconds(90)
  /// Maximum time for a relay to answer a subscription or a ping, and to send the next stored event.
  public static let answerTime = Duration.seconds(60)
  /// Maximum time for a relay to accept or reject an event of ours, after the stored events that it sends.
  public static let verdictTime = Duration.seconds(120)
  /// Time without a message from a relay after which the relay is pinged.
  public static let idleTime = Duration.seconds(60)
  /// Time after which a subscription is renewed.
  public static let subscriptionLife = Duration.seconds(30 * 60)
  /// Pause before a relay is connected again, or before a subscription that it has closed is requested again. It
  /// doubles up to `longestPause`.
  public static let firstPause = Duration.seconds(2)
  public static let longestPause = Duration.seconds(600)
  /// Minimum duration of a connection after which the pause starts at `firstPause` again.
  public static let stableTime = Duration.seconds(120)
  /// Maximum number of published events on one connection that the relay has not answered yet.
  public static let unansweredEvents = 16

  // MARK: Outbox

  /// Maximum number of waiting messages for all recipients together; `outboxOfOne` is the maximum for one recipient.
  /// Facts: bitchat.md section 8.4.
  public static let outbox = 1000
  public static let outboxOfOne = 100
  /// Maximum number of waiting receipts.
  public static let receipts = 500
  /// Maximum time for sending a message again, and maximum number of attempts.
  public static let messageLife = Duration.seconds(24 * 3600)
  public static let messageAttempts = 8
  /// The pause before a message that a relay has accepted is sent again; it doubles.
  public static let receiptWait = Duration.seconds(300)
  /// The pause before a message that no relay has accepted is sent again; it doubles up to `longestPause`.
  public static let publishPause = Duration.seconds(10)
  /// Minimum time between two receipts, which limits them to 3 in a second.
  public static let receiptSpacing = Duration.milliseconds(350)
  /// Maximum length of a message ID, in bytes.
  public static let messageIDBytes = 255

  // MARK: Memory

  /// Maximum number of remembered event IDs, so that an event from several relays is handled once.
  public static let seenEvents = 10_000
  /// Maximum number of contacts, whose messages are accepted.
  public static let contacts = 1000
  /// Average number of envelopes that are opened in a second, and the number of seconds whose envelopes may arrive at
  /// once. The sender is unknown before an envelope is opened.
  public static let envelopesPerSecond = 50
  static let envelopeBurst = 40

  // MARK: Geohash channels

  /// Maximum number of configured geohash channels, and of characters of a geohash.
  public static let channels = 4
  public static let geohashCharacters = 12
  /// Maximum length of a text and of a nickname in a channel, in bytes.
  public static let channelTextBytes = 4096
  public static let nicknameBytes = 128
  /// Range of the random pause between two presence events, in seconds. `presenceCharacters` is the maximum length of a
  /// geohash for which presence is published.
  public static let presencePause = 40.0...80.0
  public static let presenceCharacters = 5
  /// Maximum number of candidates that are derived for the key of a channel.
  public static let keyCandidates: UInt32 = 10
}
