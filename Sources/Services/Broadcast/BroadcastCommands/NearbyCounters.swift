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
      "Notifications": "received notifications that somebody nearby wants to talk",
      "LinesLeftOut": "journal entries left out: strangers cause at most one of a kind in a minute",
      "MalformedReports": "advertising reports whose AD structures are malformed",
      "NamesWithoutDigit": "names that begin with ~ without an ASCII digit after it",
      "BadTexts": "texts that are not UTF-8, or too long",
      "ControlCharacters": "texts with control characters",
      "Duplicates": "scan results of a message that had been received before; most are",
      "LateCopies": "late copies of a message that had ended",
      "TooFast": "messages less than 4 s after the last one of the same peer",
      "PeersFull": "messages of new peers, dropped because 256 peers were known",
      "TooManyNewPeers": "messages of new peers, dropped because more than 20 came in a second",
      "AddressChanges": "messages repeated from a new address: FollowAddresses=",
      "BadBeacons": "notifications of a wrong length",
      "RepeatedBeacons": "notifications that had been received before",
      "TooManyBeacons": "notifications beyond NotifyLimit=, which are not reported",
    ])
}
