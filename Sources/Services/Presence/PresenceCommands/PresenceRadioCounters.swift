import DBus
import Tool

/// The meanings of the counters of Bluetooth for private presence, in `earshotd`.
enum PresenceRadioCounters {
  private static let path: ObjectPath = "/org/earshot/radio/presence"

  static let meanings = CounterMeanings(
    "presence by Bluetooth", path, "org.earshot.PresenceRadio1",
    [
      "Sightings": "advertisements that were reported to earshot-presenced",
      "SightingsTooFast": "advertisements that were not reported, because more than 100 came in a second",
      "SightingsUnanswered":
        "advertisements that were not reported, because earshot-presenced had not answered 32 reports",
      "OtherAdvertisements": "advertisements of the service without an address to connect to, as of iOS devices",
      "IncomingLinks": "RFCOMM links that peers opened",
      "OutgoingLinks": "RFCOMM links that were opened to peers",
      "FailedLinks": "RFCOMM links that could not be opened or handed over",
      "BytesFromPeers": "bytes that links carried from peers",
      "BytesToPeers": "bytes that links carried to peers",
      "DeniedCalls": "calls that were refused, because their user is not earshot-presence",
      "RFCOMMTooManyConnections": "links that were closed, because 30 links were open",
      "RFCOMMTooManyConnectionsOfOne": "links that were closed, because their peer had 30 links open",
      "RFCOMMConnectionsTooFast": "links that were closed, because their peer opened more than 5 links in a minute",
    ])
}
