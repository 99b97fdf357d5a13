import DBus

/// Properties of the local broadcast channel. A caller outside the group sees only state, reason and counters.
struct NearbyView: Equatable {
  /// `stopped`, `waiting`, `listening` or `degraded`.
  var state = ""
  /// A sentence; empty if there is no problem.
  var reason = ""
  var isListening = false
  /// Nil if the caller may not read it; this also applies to the next two properties.
  var peers: Int?
  var notifyLimit: Int?
  var notifiesLeft: Int?
  var counters: [String: Int] = [:]

  /// Reads the channel's properties among the objects of the service. Returns nil if there are none.
  init?(objects: [String: [String: [String: DBusValue]]]) {
    guard let properties = objects[BroadcastNames.path.string]?[BroadcastNames.interface] else { return nil }
    self.init(properties)
  }

  init(_ properties: [String: DBusValue]) {
    state = properties["State"]?.asString ?? ""
    reason = properties["Reason"]?.asString ?? ""
    isListening = properties["Listening"]?.asBool ?? false
    peers = properties["PeersNearby"]?.asInteger
    notifyLimit = properties["NotifyLimit"]?.asInteger
    notifiesLeft = properties["NotifiesLeft"]?.asInteger
    counters = properties["Counters"]?.asDictionary?.compactMapValues(\.asInteger) ?? [:]
  }
}
