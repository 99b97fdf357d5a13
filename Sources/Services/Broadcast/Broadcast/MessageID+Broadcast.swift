import Journal

extension Journal.MessageID {
  /// Scanning and sending have started.
  static let broadcastStarted = Journal.MessageID(
    "BroadcastStarted", "3f9d2c71a6e84b0c9d57e1f80b34a625", "The service receives the local broadcast channel",
    """
    The last 1,000 received messages are stored in memory, and nowhere else. earshot nearby watch shows them.
    """)

  /// Scanning and sending have stopped.
  static let broadcastStopped = Journal.MessageID(
    "BroadcastStopped", "b7c04e93d1f54a6e8a2f6d905c17e3b8",
    "The service no longer receives the local broadcast channel",
    """
    Messages that waited to be broadcast were dropped.
    """)

  /// A beacon was received and reported.
  static let broadcastNotified = Journal.MessageID(
    "BroadcastNotified", "65a1f8d03b7e4c92b14d0e7c8f52a396", "A beacon of the local broadcast channel was received",
    """
    Somebody nearby wants to talk. Local programs are notified of as many beacons a day as NotifyLimit= in [Broadcast]
    allows. Further beacons are counted and dropped. With NotifyLimit=0, programs are never notified.
    """)

  /// Reports were dropped because of the limits on peers.
  static let broadcastFlooded = Journal.MessageID(
    "BroadcastFlooded", "0e84b6d27f3c4915a90b5d1e6c72f843", "More messages arrive nearby than the limits allow",
    """
    Either there are very many people nearby, or a device uses many invented addresses, which the protocol cannot
    prevent. Messages of known peers are received as before, but those of new peers only in part. This log message has
    the counters; it is written once a minute at most.
    """)

  /// A message or a beacon was not broadcast for its whole time.
  static let broadcastUnsent = Journal.MessageID(
    "BroadcastUnsent", "d92e7f0a4c6b4831b5f8a37d1e0c9264",
    "A message or a beacon was not broadcast for its whole time",
    """
    This log message names the reason. earshot status shows the adapter and what else is advertised. A broadcast
    message that was not sent for its whole time can be sent again.
    """)

  /// The record of notifications cannot be written or read.
  static let broadcastStoreDegraded = Journal.MessageID(
    "BroadcastStoreDegraded", "48d6b1c95e2f4a07836ca9e02f7d15b4",
    "Today's notification counts cannot be stored or read",
    """
    This machine notifies people nearby once a day, and local programs as often as NotifyLimit= allows. Both counts are
    stored in the state directory, so that a restart does not reset them. If they cannot be read, both are treated as
    used up; if they cannot be written, nothing is sent. The message names the problem.
    """)

  /// All message IDs of the local broadcast channel.
  static let broadcast: [Journal.MessageID] = [
    .broadcastStarted, .broadcastStopped, .broadcastNotified, .broadcastFlooded, .broadcastUnsent,
    .broadcastStoreDegraded,
  ]
}
