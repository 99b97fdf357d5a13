import Tool

/// The meanings of the counters of `earshot-presenced`.
enum PresenceCounters {
  static let table = CounterMeanings(
    "presence", PresenceNames.path, PresenceNames.interface,
    announcements.merging(discovery) { $1 }.merging(beacons) { $1 }.merging(links) { $1 }.merging(streams) { $1 })

  /// The meanings of counters of received announcements.
  private static let announcements: [String: String] = [
    "Recognized": "announcements of known peers for this machine",
    "UnknownForms": "announcements that belong to no dialect",
    "OtherDialects": "announcements in a dialect that is switched off",
    "BadLengths": "announcements without a whole beacon, or of more than 4,095 bytes",
    "BadKeys": "announcements with an invalid ephemeral key",
    "Expired": "announcements that had expired when they arrived",
    "TooFarAhead": "announcements that expire in more than 24 h",
    "Replayed": "announcements with an ephemeral key that was judged before",
    "NotForUs": "announcements for other machines",
    "UnknownSenders": "announcements for this machine whose sender is not known",
    "WrongCodes": "announcements that name a known peer as sender, but have a wrong code",
    "CryptoFailures": "announcements that a library of this machine failed to judge",
    "DiscoveryPauses": "pauses of discovery because of more than 50 new announcements in a second",
    "IgnoredAnnouncements": "announcements that were not judged during such a pause",
    "IgnoredWays": "addresses that served announcements and were not stored, because of a limit",
    "FailedRenewals": "renewals of the own announcement that failed",
  ]

  /// The meanings of counters of the discovery on the local network (SSDP).
  private static let discovery: [String: String] = [
    "ReceivedDatagrams": "datagrams received",
    "SentDatagrams": "datagrams sent",
    "UnsentDatagrams": "datagrams that the kernel did not send",
    "DatagramsTooLong": "datagrams of more than 1,500 bytes",
    "TooManyDatagrams":
      "datagrams that were not read, because more than 100 came in a second, or more than 25 from one address",
    "MalformedDatagrams": "datagrams that are not an HTTP head",
    "OtherServices": "datagrams of other services; most datagrams of a network are",
    "BadServiceNames": "datagrams with a missing or malformed service name",
    "MissingLocations": "datagrams without a location",
    "LocationsNotHTTP": "locations that are not an HTTP URL with an address",
    "LocationsOfOtherHosts": "locations with another address than their sender's",
    "LocationsWithLowPorts": "locations without a port, or with one below 1024",
    "LocationPathsTooLong": "locations with a path of more than 256 bytes",
    "UnicastPauses": "pauses because the network passes multicast, but not unicast",
    "FailedInterfaces": "interfaces and addresses of this machine that could not be used",
  ]

  /// The meanings of counters of fetched and served announcements (HTTP).
  private static let beacons: [String: String] = [
    "FailedFetches": "announcements of peers that could not be fetched",
    "MalformedMessages": "answers of peers that are not HTTP",
    "HeadsTooLong": "answers of peers with a head of more than 2 KiB or 64 lines",
    "BodiesTooLong": "answers of peers with a body of more than 4,095 bytes",
    "BadBodyLengths": "answers of peers with an ambiguous length",
    "TruncatedMessages": "answers of peers that ended early",
    "AnsweredRequests": "requests of peers that were answered",
    "RequestTimeouts": "requests of peers that exceeded the time limit",
    "RequestHeadsTooLong": "requests of peers with a head that is too long",
    "UnreadableRequests": "connections of peers that ended without a readable request",
    "TooManyRequests": "connections of peers that were closed, because the maximum was open",
    "EvictedRequests": "the oldest connections of peers, which were closed for further ones",
    "HTTPTooManyConnections": "connections that were closed, because 64 were open",
    "HTTPTooManyConnectionsOfOne": "connections that were closed, because their address had 4 open",
    "HTTPConnectionsTooFast": "connections that were closed, because their address opened them too fast",
    "SilentConnections": "connections that were closed without a first byte",
  ]

  /// The meanings of counters of RFCOMM links.
  private static let links: [String: String] = [
    "AcceptedLinks": "RFCOMM links that peers made",
    "OpenedLinks": "RFCOMM links that this machine made",
    "UnreachableDevices": "RFCOMM links that could not be made",
    "TooManyLinks": "RFCOMM links beyond the limit",
    "EvictedLinks": "RFCOMM links that were closed to free capacity for a new one",
    "BadHandshakes": "RFCOMM links that were closed, because their first byte has no meaning",
    "OldPhones": "RFCOMM links of phones with a library that is not supported",
    "HandshakeTimeouts": "RFCOMM links on which nothing arrived within 10 s",
    "BadFrames": "RFCOMM links that were closed because of a malformed frame",
    "FramesTooLong": "RFCOMM links that were closed because of a frame of more than 1 MiB",
    "UnreadAnswers": "RFCOMM links that were closed, because the peer did not read the answers",
    "IgnoredFrames": "frames for channels that are not open",
    "RefusedStreams": "streams of RFCOMM links that were destroyed at once",
    "SilentStreams": "streams of RFCOMM links that were destroyed without a first byte",
  ]

  /// The meanings of counters of TLS streams to and from peers.
  private static let streams: [String: String] = [
    "IncomingStreams": "streams that peers opened",
    "OutgoingStreams": "streams that were opened to peers",
    "BytesFromPeers": "bytes that streams carried from peers, counted when a stream has ended",
    "BytesToPeers": "bytes that streams carried to peers, counted when a stream has ended",
    "TooManyStreams": "streams beyond the limit",
    "UnknownServices": "streams for a service that no program has registered",
    "UnavailableServices": "streams for a service whose program did not accept them",
    "MalformedServiceRequests": "streams whose request for a service is malformed",
    "StaleIdentities": "TLS handshakes with the identity of an announcement that has expired, or of a removed peer",
    "TLSHandshakes": "TLS handshakes that succeeded",
    "EvictedHandshakes": "TLS handshakes that were ended for others, because 32 were under way",
    "SilentHandshakes": "TLS handshakes without a first message within 3 s",
    "TLSNoCommonSuite": "TLS handshakes with a peer that has no common suite",
    "TLSOtherVersions": "TLS handshakes with a peer that does not support TLS 1.2",
    "TLSUnknownIdentities": "TLS handshakes with an identity for which there is no key",
    "TLSWrongKeys": "TLS handshakes with a peer that has another key",
    "TLSNoCommonSuiteWithPeer": "TLS handshakes that a peer ended, because there is no common suite",
    "TLSOtherVersionOfPeer": "TLS handshakes that a peer ended because of the version of TLS",
    "TLSIdentityUnknownToPeer": "TLS handshakes that a peer ended, because it has no key for the identity",
    "TLSKeyRefusedByPeer": "TLS handshakes that a peer ended, because it has another key",
    "TLSTimeouts": "TLS handshakes that exceeded their time limit",
    "TLSTruncations": "TLS connections whose bytes ended without the end of TLS",
    "TLSOtherFailures": "TLS connections that failed for another reason",
    "TLSTooManyConnections": "TLS connections that were closed, because 32 handshakes were under way",
    "TLSTooManyConnectionsOfOne": "TLS connections that were closed, because their peer had 4 handshakes under way",
    "TLSConnectionsTooFast": "TLS connections that were closed, because their peer opened more than 5 in a second",
  ]
}
