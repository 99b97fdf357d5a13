import Journal

extension Journal.MessageID {
  /// The state was read, and the service can be used.
  static let presenceReady = Journal.MessageID(
    "PresenceReady", "8f0e52d6c1b94a7791c6e3ad57f4b208", "Private presence is ready",
    """
    The key of this machine and its known peers were read or made. earshot presence peers shows them.
    """)

  /// The key or the known peers cannot be read or written.
  static let presenceStoreFailed = Journal.MessageID(
    "PresenceStoreFailed", "c4a7d90b3e2f48d6b51e08f6729ac3d1", "The key or the known peers cannot be stored or read",
    """
    The message names the file and the reason. If they cannot be read, nothing is announced or recognised. If they
    cannot be written, the last change is refused.
    """)

  /// An interface or an address cannot be used.
  static let presenceNetworkFailed = Journal.MessageID(
    "PresenceNetworkFailed", "1b6c38e5f7d24f0a8e92d4b07c5613ea", "A network interface cannot be used",
    """
    The message names the interface and the reason. Other interfaces are used. The service tries again when the
    interface changes.
    """)

  /// Discovery is paused, because there were too many announcements of others.
  static let presencePaused = Journal.MessageID(
    "PresencePaused", "e93d5a1f60c74b2c97b8f1d42ea0657c", "Discovery is paused because of too many announcements",
    """
    More than 50 new announcements arrived in a second. Discovery continues after a pause of 30 s, which doubles
    each time up to 10 min. Known peers that are nearby stay nearby during the pause, and can be reached.
    """)

  /// The announcement of this machine cannot be renewed.
  static let presenceRenewalFailed = Journal.MessageID(
    "PresenceRenewalFailed", "72c0b5e86d0f4b6d9a1fe0c83d5b4e97", "The announcement of this machine cannot be renewed",
    """
    The message gives the reason, for example a clock that is not set. The service tries again each minute. Peers find
    this machine until its last announcement expires, at most 1 h after it was made.
    """)

  /// An old phone has connected by Bluetooth.
  static let presenceOldPhone = Journal.MessageID(
    "PresenceOldPhone", "5d0f7be94a1c4c36a2e88f6b93d1705e", "A phone with an old Thali library has connected",
    """
    Phones with the library of 2016 to 2018 begin an RFCOMM link with text, which the protocol document does not define.
    The link was closed. Such a phone is reported once a day; the counter OldPhones has their number.
    """)

  /// All message IDs of private presence.
  static let presence: [Journal.MessageID] = [
    .presenceReady, .presenceStoreFailed, .presenceNetworkFailed, .presencePaused, .presenceRenewalFailed,
    .presenceOldPhone,
  ]
}
