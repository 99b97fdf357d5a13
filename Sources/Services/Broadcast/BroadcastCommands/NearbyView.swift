import DBus

/// The feed as its properties show it. A program that is not of the group sees state, reason and counters alone.
struct NearbyView: Equatable {
  /// `stopped`, `waiting`, `listening` or `degraded`.
  var state = ""
  /// A sentence; empty where all is well.
  var reason = ""
  var isListening = false
  /// Nil for who may not see it, as the two below.
  var peers: Int?
  var notifyLimit: Int?
  var notifiesLeft: Int?
  var counters: [String: Int] = [:]

  /// The feed among the objects of the service; nil where the service has none.
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
