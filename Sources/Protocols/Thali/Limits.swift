import Common

/// The numbers of the protocol, and the limits of this implementation. Facts: thali.md sections 1, 2, 5, 6, 7 and 8.
public enum Limits {
  // MARK: Announcements

  /// Public keys of known peers.
  public static let knownPeers = 256
  /// Beacons in an announcement that is sent. Old phones never sent more.
  public static let beacons = 15
  /// The longest announcement that is read, and the longest body of a response, in bytes. Old phones reject 4,096 and
  /// more.
  public static let announcementBytes = 4095
  /// The longest time from reception to expiration of an announcement that is accepted.
  public static let receivedLife = Duration.seconds(24 * 3600)
  /// The longest life of an announcement that is sent. It is 1 h below `receivedLife`, for receivers whose clock is
  /// slow.
  public static let longestLife = Duration.seconds(23 * 3600)
  /// The shortest life of an announcement that is sent.
  public static let shortestLife = Duration.seconds(10)
  /// The life of an announcement that is renewed, and how long before its expiration the next one is made.
  public static let announcementLife = Duration.seconds(3600)
  public static let renewalLead = Duration.seconds(600)
  /// The pause before a failed renewal is tried again, and the shortest time between two announcements because of new
  /// addresses.
  public static let renewalPause = Duration.seconds(60)
  /// Announcements that programs may request in a minute.
  public static let announcementsPerMinute = 30
  /// Ephemeral keys of received announcements that are remembered until they expire.
  public static let ephemeralKeys = 10_000
  /// Announcements of our own whose TLS identities are recognised.
  public static let servedAnnouncements = 50
  /// Maximum own expirations that are remembered until they have passed, so that none is used twice.
  public static let usedExpirations = 10_000

  // MARK: Peers nearby

  /// Ways of one kind (RFCOMM or TCP) that are remembered.
  public static let waysOfOneKind = 200
  /// Ways of one network address that are remembered.
  public static let waysOfOneAddress = 4
  /// How soon beacons are fetched again from a peer that says nothing about changes.
  public static let refetchPeriod = Duration.seconds(60)
  /// How long a BLE advertisement is remembered that is not received again.
  public static let bluetoothLife = Duration.seconds(60)
  /// How long a datagram is remembered: twice its max-age of 60 s, for a sender in the background repeats it only
  /// every 60 s.
  public static let networkLife = Duration.seconds(120)
  /// The pause after the first failure of a way; it doubles with each further one.
  public static let firstBackoff = Duration.seconds(2)
  public static let longestBackoff = Duration.seconds(300)
  /// Beacons that are fetched at the same time, over RFCOMM and over TCP.
  public static let bluetoothFetches = 1
  public static let networkFetches = 8
  /// How long a fetch may take before it counts as failed.
  public static let bluetoothFetchTime = Duration.seconds(30)
  public static let networkFetchTime = Duration.seconds(10)

  // MARK: Denial of service

  /// New announcements in a second, from all senders together.
  public static let announcementsPerSecond = 50
  /// The first pause of discovery after too many announcements; it doubles up to `longestPause`.
  public static let firstPause = Duration.seconds(30)
  public static let longestPause = Duration.seconds(600)
  /// RFCOMM links at a time, and new ones of one address in a minute.
  public static let rfcommLinks = 30
  public static let rfcommLinksPerMinute = 5
  /// HTTP connections at a time, and those of one address.
  public static let httpConnections = 64
  public static let httpConnectionsOfOneAddress = 4
  /// TLS handshakes at a time, those of one address, and new ones of one address in a second.
  public static let tlsHandshakes = 32
  public static let tlsHandshakesOfOneAddress = 4
  public static let tlsHandshakesPerSecond = 5
  /// Addresses whose rates are remembered.
  public static let countedAddresses = 1024

  // MARK: Streams

  /// How long either side of an RFCOMM link may take for the handshake.
  public static let handshakeTime = Duration.seconds(10)
  /// Streams of one multiplexed link.
  public static let streams = 64
  /// The longest varint of a frame header, in bytes.
  public static let varintBytes = 5
  /// The longest data of a received frame, in bytes.
  public static let frameBytes = 1 << 20
  /// The longest data of a frame that is sent, in bytes: short, so that streams share a slow link fairly.
  public static let sentFrameBytes = 4096
  /// Buffered bytes of one stream in one direction.
  public static let streamBuffer = 256 << 10
  /// Bytes of a stream's name and of the reason for its destruction that are kept.
  public static let frameTextBytes = 128

  // MARK: HTTP and SSDP

  /// The longest head of a request or response, with its empty line, in bytes.
  public static let httpHeadBytes = 2048
  /// Header lines of one message.
  public static let headerLines = 64
  /// The longest datagram, in bytes.
  public static let datagramBytes = 1500
  /// Datagrams that are read in a second.
  public static let datagramsPerSecond = 100
  /// The longest path of a location, in bytes.
  public static let pathBytes = 256
  /// Names (USN) of our own that are remembered, so that our own datagrams are known.
  public static let ownNames = 10
  /// The period of announcements by multicast while somebody uses the machine, and otherwise.
  public static let foregroundPeriod = Duration.milliseconds(500)
  public static let backgroundPeriod = Duration.seconds(50)
  /// The shortest time between two searches.
  public static let searchPeriod = Duration.seconds(300)
  /// Failed fetches from different addresses in a row, without a success, after which multicast without unicast is
  /// assumed.
  public static let unreachableAddresses = 3
  /// How long announcements by multicast stop then.
  public static let unicastPause = Duration.seconds(300)
}
