import Common

/// The constants of the protocol, and the limits of this implementation. Facts: thali.md sections 1, 2, 5, 6, 7 and 8.
public enum Limits {
  // MARK: Announcements

  /// Maximum number of known peers.
  public static let knownPeers = 256
  /// Maximum number of beacons in a sent announcement. Old phones never sent more.
  public static let beacons = 15
  /// Maximum length of a received announcement, and of the body of a response, in bytes. Old phones reject 4,096 and
  /// more.
  public static let announcementBytes = 4095
  /// Maximum time from reception to expiration of an accepted announcement.
  public static let receivedLife = Duration.seconds(24 * 3600)
  /// Maximum validity of a sent announcement. It is 1 h below `receivedLife`, for receivers whose clock is slow.
  public static let longestLife = Duration.seconds(23 * 3600)
  /// Minimum validity of a sent announcement.
  public static let shortestLife = Duration.seconds(10)
  /// Validity of an announcement that is renewed automatically; `renewalLead` is the time before its expiration at
  /// which the next one is made.
  public static let announcementLife = Duration.seconds(3600)
  public static let renewalLead = Duration.seconds(600)
  /// Pause before a failed renewal is repeated. It is also the minimum time between two announcements that are made
  /// because this machine has a new address.
  public static let renewalPause = Duration.seconds(60)
  /// Maximum number of announcements that programs may request in a minute.
  public static let announcementsPerMinute = 30
  /// Maximum number of ephemeral keys of received announcements that are stored until they expire.
  public static let ephemeralKeys = 10_000
  /// Number of own announcements whose TLS identities are accepted.
  public static let servedAnnouncements = 50
  /// Maximum number of expirations of this machine's announcements that are stored until they have passed, so that none
  /// is reused.
  public static let usedExpirations = 10_000

  // MARK: Peers nearby

  /// Maximum number of stored ways to peers by one medium (RFCOMM or TCP).
  public static let waysOfOneKind = 200
  /// Maximum number of stored ways to peers at one network address.
  public static let waysOfOneAddress = 4
  /// Minimum time between two fetches of beacons from a peer that does not report changes.
  public static let refetchPeriod = Duration.seconds(60)
  /// Time after its last BLE advertisement for which an RFCOMM way to a peer is stored.
  public static let bluetoothLife = Duration.seconds(60)
  /// Time after its last SSDP datagram for which a TCP way to a peer is stored. It is twice the max-age of 60 s,
  /// because a sender in the background repeats the datagram only every 60 s.
  public static let networkLife = Duration.seconds(120)
  /// Pause after the first failed fetch over a way to a peer. It doubles with each further failure.
  public static let firstBackoff = Duration.seconds(2)
  public static let longestBackoff = Duration.seconds(300)
  /// Maximum number of simultaneous fetches of beacons over RFCOMM; `networkFetches` is the maximum over TCP.
  public static let bluetoothFetches = 1
  public static let networkFetches = 8
  /// Time after which a fetch counts as failed.
  public static let bluetoothFetchTime = Duration.seconds(30)
  public static let networkFetchTime = Duration.seconds(10)

  // MARK: Denial of service

  /// Maximum number of new announcements in a second, from all senders together.
  public static let announcementsPerSecond = 50
  /// First pause of discovery after too many announcements. It doubles up to `longestPause`.
  public static let firstPause = Duration.seconds(30)
  public static let longestPause = Duration.seconds(600)
  /// Maximum number of RFCOMM links, and of new ones of one address in a minute.
  public static let rfcommLinks = 30
  /// RFCOMM links from which on a new one ends the oldest one that no known peer uses. The difference is for links that
  /// are being ended.
  public static let rfcommLinksBeforeEviction = 28
  public static let rfcommLinksPerMinute = 5
  /// Maximum number of HTTP connections, and of those of one address.
  public static let httpConnections = 64
  public static let httpConnectionsOfOneAddress = 4
  /// Maximum number of TLS handshakes under way, of those of one address, and of new ones of one address in a second.
  public static let tlsHandshakes = 32
  public static let tlsHandshakesOfOneAddress = 4
  public static let tlsHandshakesPerSecond = 5
  /// Maximum number of addresses whose connections are counted.
  public static let countedAddresses = 1024

  // MARK: Streams

  /// Maximum time for the handshake of an RFCOMM link, on either side.
  public static let handshakeTime = Duration.seconds(10)
  /// Maximum time until the first byte of a TCP connection or of a stream of an RFCOMM link.
  public static let firstByteTime = Duration.seconds(5)
  /// Maximum number of streams of one multiplexed link.
  public static let streams = 64
  /// Maximum length of a varint in a frame header, in bytes.
  public static let varintBytes = 5
  /// Maximum data of a received frame, in bytes.
  public static let frameBytes = 1 << 20
  /// Maximum data of a sent frame, in bytes: short, so that streams share a slow link fairly.
  public static let sentFrameBytes = 4096
  /// Maximum buffered bytes of one stream in one direction.
  public static let streamBuffer = 256 << 10
  /// Maximum stored bytes of a stream's name, and of the reason for its destruction.
  public static let frameTextBytes = 128

  // MARK: HTTP and SSDP

  /// Maximum length of the head of a request or response, with its empty line, in bytes.
  public static let httpHeadBytes = 2048
  /// Maximum number of header lines of one message.
  public static let headerLines = 64
  /// Maximum length of a datagram, in bytes.
  public static let datagramBytes = 1500
  /// Maximum number of datagrams that are read in a second.
  public static let datagramsPerSecond = 100
  /// Maximum number of datagrams of one source address that are read in a second.
  public static let datagramsOfOneAddress = 25
  /// Maximum length of the path of a location, in bytes.
  public static let pathBytes = 256
  /// Number of this machine's last SSDP names (USN) that are stored, so that its own datagrams are recognised.
  public static let ownNames = 10
  /// Period of SSDP announcements while a person uses the machine; `backgroundPeriod` is the period otherwise.
  public static let foregroundPeriod = Duration.milliseconds(500)
  public static let backgroundPeriod = Duration.seconds(50)
  /// Minimum time between two SSDP searches of this machine.
  public static let searchPeriod = Duration.seconds(300)
  /// Number of different addresses with consecutive failed fetches after which the network is assumed to pass multicast
  /// but not unicast.
  public static let unreachableAddresses = 3
  /// Time for which SSDP announcements stop after `unreachableAddresses` failed.
  public static let unicastPause = Duration.seconds(300)
}
