import Calendar
import CommandLine
import Common
import DBus
import Terminal
import Tool

/// Properties of the local broadcast channel. A caller outside the group sees only state, reason and counters.
struct NearbyView: Equatable {
  /// State of the channel: `stopped`, `waiting`, `listening` or `degraded`.
  var state = ""
  /// Sentence with the cause of a problem; empty if there is none.
  var reason = ""
  var isListening = false
  /// Number of peers nearby; nil if the caller may not read it. The next two properties are then nil as well.
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

/// Received message in the form of `ListMessages`: `(ttssn)`.
struct NearbyMessage: Equatable {
  let number: UInt64
  /// Time of reception, in milliseconds since 1970-01-01 UTC.
  let time: UInt64
  let peer: String
  /// Unchecked text as received.
  let text: String
  /// Received signal strength in dBm; nil if unknown.
  let rssi: Int?

  /// Returns nil for a value of another type.
  init?(_ value: DBusValue) {
    guard let members = value.asArray, members.count == 5, let number = members[0].asUInt64,
      let time = members[1].asUInt64, let peer = members[2].asString, let text = members[3].asString,
      let rssi = members[4].asInteger
    else { return nil }
    (self.number, self.time, self.peer, self.text) = (number, time, peer, text)
    self.rssi = SignalStrength.dBm(rssi)
  }

  /// Formats the message as `12:00:00  amber-otter  -60 dBm  hello`, with the time in the local time zone. Text of
  /// strangers is shown without terminal and bidirectional controls, and cut by its displayed columns.
  ///
  /// - Parameter width: the columns of the terminal; nil for a file.
  func line(width: Int?) -> String {
    let strength = rssi.map { "\($0) dBm" } ?? "? dBm"
    let text = DisplayText.settled(PrintableText.clean(self.text))
    let line = "\(LocalTime.clock(time))  \(PrintableText.clean(peer))  \(strength)  \(text)"
    return width.map { DisplayText.cut(line, to: $0) } ?? line
  }

  var json: JSONValue {
    .object([
      .init("message", .unsigned(number)), .init("time", .unsigned(time)), .init("peer", .string(peer)),
      .init("text", .string(text)), .init("rssi", rssi.map { .int(Int64($0)) } ?? .null),
    ])
  }
}

/// Names of the local broadcast channel on D-Bus.
enum BroadcastNames {
  static let feature = Feature("local broadcast channel", section: "Broadcast")
  static let path: ObjectPath = "/org/earshot/broadcast"
  static let interface = "org.earshot.Broadcast1"
}
