import Tool

/// The meanings of the counters of the local broadcast channel.
enum NearbyCounters {
  /// A sentence with the most important counters; nil if nothing was sent or received.
  static func summary(_ view: NearbyView) -> String? {
    let (received, sent) = (view.counters["HeardMessages"] ?? 0, view.counters["SentMessages"] ?? 0)
    guard received + sent > 0 else { return nil }
    return "Since its start: \(received) messages received, \(sent) sent."
  }

  static let meanings = CounterMeanings(
    "nearby", BroadcastNames.path, BroadcastNames.interface,
    [
      "HeardMessages": "messages received",
      "SentMessages": "messages broadcast for their 4 s",
      "UnsentMessages": "messages that were not broadcast for their 4 s",
      "Stops": "ends of messages that were received",
      "Notifications": "notifications received that somebody wants to talk",
      "LinesLeftOut": "journal lines that were not written; strangers cause at most one of a kind in a minute",
      "MalformedReports": "advertising reports whose AD structures are malformed",
      "NamesWithoutDigit": "names of ~ without an ASCII digit behind it",
      "BadTexts": "texts that are not UTF-8, or too long",
      "ControlCharacters": "texts with control characters",
      "Duplicates": "reports of a message that had been received before; most reports are",
      "LateCopies": "late copies of a message that had ended",
      "TooFast": "messages that came sooner after the last one than their sender may send them",
      "PeersFull": "messages of new peers while 256 peers are known",
      "TooManyNewPeers": "messages of new peers, over 20 in a second",
      "AddressChanges": "messages from a new address that were taken for the same one: FollowAddresses=",
      "BadBeacons": "notifications of a wrong length",
      "RepeatedBeacons": "notifications that had been received before",
      "TooManyBeacons": "notifications over the limit of the day",
    ])
}
