import Journal

extension Journal.MessageID {
  /// Scanning and sending have started.
  static let broadcastStarted = Journal.MessageID(
    "BroadcastStarted", "3f9d2c71a6e84b0c9d57e1f80b34a625", "The service hears the public feed nearby",
    """
    Messages that come are kept in memory, 1,000 of them, and nowhere else. earshot nearby watch shows them.
    """)

  /// Scanning and sending have stopped.
  static let broadcastStopped = Journal.MessageID(
    "BroadcastStopped", "b7c04e93d1f54a6e8a2f6d905c17e3b8", "The service no longer hears the public feed nearby",
    """
    Messages that waited to be said were dropped.
    """)

  /// A beacon was received and reported.
  static let broadcastNotified = Journal.MessageID(
    "BroadcastNotified", "65a1f8d03b7e4c92b14d0e7c8f52a396", "Somebody nearby wants to talk",
    """
    A beacon of the feed was heard. Local programs are told of so many a day as NotifyLimit of [Broadcast] says;
    those beyond are counted and dropped. 0 turns it off.
    """)

  /// Reports were dropped because of the limits on peers.
  static let broadcastFlooded = Journal.MessageID(
    "BroadcastFlooded", "0e84b6d27f3c4915a90b5d1e6c72f843", "More is said nearby than the limits let through",
    """
    Either there are very many people, or somebody makes up addresses, against which the protocol has no means.
    Peers that were known before are heard as before; of new ones only some are. The message has the counters;
    there is one line a minute at most.
    """)

  /// A message or a beacon was not broadcast for its whole time.
  static let broadcastUnsent = Journal.MessageID(
    "BroadcastUnsent", "d92e7f0a4c6b4831b5f8a37d1e0c9264",
    "A message or a beacon was not on the air for its whole time",
    """
    The message says why. earshot status shows the adapter, and what else is on the air; a message may be sent
    again.
    """)

  /// The record of notifications cannot be written or read.
  static let broadcastStoreDegraded = Journal.MessageID(
    "BroadcastStoreDegraded", "48d6b1c95e2f4a07836ca9e02f7d15b4", "What was notified today cannot be kept or read",
    """
    Others are notified once a day, and local programs so often as is wanted; a restart does not change that, for
    both are kept in the state directory. Where it cannot be read, today's are held for spent; where it cannot be
    written, nothing is sent. The message says what is wrong with it.
    """)

  /// All message IDs of the local broadcast channel.
  static let broadcast: [Journal.MessageID] = [
    .broadcastStarted, .broadcastStopped, .broadcastNotified, .broadcastFlooded, .broadcastUnsent,
    .broadcastStoreDegraded,
  ]
}
