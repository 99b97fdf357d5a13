import Tool

/// Meanings of the counters of `org.earshot.Uplink1`.
enum UplinkCounters {
  static let table = CounterMeanings(
    "uplink", UplinkCommand.path, UplinkCommand.interface, service.merging(events) { $1 }.merging(relays) { $1 })

  private static let service: [String: String] = [
    "DeliveredTexts": "received texts that earshotd has handled",
    "WaitingTexts": "received texts that wait for earshotd",
    "UnsendableTexts": "received texts with characters that D-Bus cannot carry",
    "ProxyFailures": "failed attempts to use the proxy",
    "StoreFailures": "failed writes of the key or the outbox",
    "Wipes": "wipes of the key and all messages",
    "Messages": "private messages and receipts received",
    "ChannelEvents": "events received in geohash channels",
    "PublishedEvents": "events sent to relays",
    "AcceptedEvents": "times that a relay accepted an event",
    "RejectedEvents": "times that a relay rejected an event",
    "Challenges": "relays' requests to prove the key, which are not answered",
    "ExpiredMessages": "messages given up after 24 h, or 8 attempts, without a receipt",
    "DroppedReceipts": "receipts that no relay accepted within 24 h",
  ]

  /// Events of relays that were dropped.
  private static let events: [String: String] = [
    "EventsTooLong": "events of more than 64 KiB",
    "MalformedEvents": "malformed events",
    "WrongEventIDs": "events whose ID is not their hash",
    "WrongSignatures": "events whose signature is not valid",
    "WrongKinds": "events of a kind that was not requested",
    "EventsTooOld": "events that are too old",
    "EventsInTheFuture": "events dated in the future",
    "RepeatedEvents": "events that were handled before; normal with several relays",
    "WrongWrapTags": "envelopes with tags that their form does not allow",
    "OtherEnvelopeForms": "envelopes in a form that the settings do not accept",
    "WrapsNotOpened": "envelopes that are not encrypted for this key",
    "MalformedSeals": "envelopes with a malformed seal",
    "SealsWithTags": "envelopes whose seal has tags",
    "SealsNotSigned": "envelopes whose seal is not signed by its author",
    "EnvelopesOfStrangers": "envelopes of senders that are not mutual favourites",
    "EnvelopesOfOwnKey": "envelopes of this machine's own key",
    "SealsNotOpened": "envelopes whose seal is not encrypted for this key",
    "MalformedRumors": "envelopes with a malformed message",
    "RumorsWithSignature": "envelopes whose message is signed",
    "RumorsOfOtherAuthor": "envelopes whose message and seal have different authors",
    "WrongRumorTags": "envelopes whose message has tags that its form does not allow",
    "WrongRumorIDs": "envelopes whose message has a wrong ID",
    "WrongTextLengths": "envelopes whose text is empty or too long",
    "MalformedChannelEvents": "events of geohash channels that are malformed or of another channel",
    "UnopenedEnvelopes":
      "envelopes that were not opened because too many came or waited for earshotd; they are requested again",
    "CryptoFailures": "events that were dropped because a cryptographic library failed",
  ]

  /// Reasons why connections to relays ended.
  private static let relays: [String: String] = [
    "ConnectTimeouts": "connections that were not ready within 90 s",
    "Disconnects": "connections that ended or could not be made",
    "MessagesTooLong": "connections closed because of a message of more than 256 KiB",
    "MalformedMessages": "connections closed because of a message that is not valid in the protocol",
    "Floods": "connections closed because of more than 100 events, or 50 other messages, in a second",
    "UncheckedEvents": "connections closed because of invalid or unrequested events",
    "Stalls": "connections closed because the relay did not answer within 60 s",
  ]
}
