import Bytes

/// The name of a subscription, which this machine chooses: up to 64 bytes.
public struct SubscriptionID: Hashable, Sendable {
  public let text: String

  init(_ text: String) { self.text = text }
}

/// The conditions of a subscription, which each of its events fulfils (NIP-01).
public struct EventFilter: Hashable, Sendable {
  public var kinds: [EventKind]
  /// Public keys of recipients, in the tag `p`; empty: no condition.
  public var recipients: [NostrKey]
  /// Geohashes, in the tag `g`; empty: no condition.
  public var geohashes: [Geohash]
  /// The earliest time of an event; nil: no condition.
  public var since: UnixTime?
  /// The number of stored events, newest first.
  public var limit: Int

  public init(
    kinds: [EventKind], recipients: [NostrKey] = [], geohashes: [Geohash] = [], since: UnixTime? = nil,
    limit: Int = NostrLimits.storedEvents
  ) {
    (self.kinds, self.recipients, self.geohashes) = (kinds, recipients, geohashes)
    (self.since, self.limit) = (since, limit)
  }

  /// Whether the event matches this filter, except for its time, which is not compared.
  public func admits(_ event: EventDraft) -> Bool {
    guard kinds.contains(event.kind) else { return false }
    return names(recipients.map(\.hex), tag: "p", of: event) && names(geohashes.map(\.text), tag: "g", of: event)
  }

  private func names(_ wanted: [String], tag: String, of event: EventDraft) -> Bool {
    wanted.isEmpty || event.tags.contains { $0.count >= 2 && $0[0] == tag && wanted.contains($0[1]) }
  }

  func write(to text: inout JSONText) {
    text.raw("{\"kinds\":")
    text.array(kinds) { $0.raw("\($1.rawValue)") }
    if !recipients.isEmpty {
      text.raw(",\"#p\":")
      text.list(recipients.map(\.hex))
    }
    if !geohashes.isEmpty {
      text.raw(",\"#g\":")
      text.list(geohashes.map(\.text))
    }
    if let since { text.raw(",\"since\":\(since.seconds)") }
    text.raw(",\"limit\":\(limit)}")
  }
}

/// A message to a relay (NIP-01): an array in JSON, sent as one text message of WebSocket.
public enum ClientMessage: Hashable, Sendable {
  case event(NostrEvent)
  case request(SubscriptionID, [EventFilter])
  case close(SubscriptionID)

  /// The message as JSON.
  public var text: String {
    var text = JSONText(controls: .escaped)
    switch self {
    case .event(let event): text.raw("[\"EVENT\",\(event.json)]")
    case .request(let subscription, let filters):
      text.raw("[\"REQ\",")
      text.string(subscription.text)
      for filter in filters {
        text.raw(",")
        filter.write(to: &text)
      }
      text.raw("]")
    case .close(let subscription):
      text.raw("[\"CLOSE\",")
      text.string(subscription.text)
      text.raw("]")
    }
    return String(decoding: text.bytes, as: UTF8.self)
  }
}

/// A message of a relay (NIP-01, NIP-42): an array in JSON, in one text message of WebSocket.
public enum RelayMessage: Hashable, Sendable {
  /// An event of a subscription. A malformed event is the fault of its author and not of the relay, so the message is
  /// valid and contains the reason.
  case event(SubscriptionID, Result<ReceivedEvent, EventRefusal>)
  /// The relay has sent all stored events of a subscription.
  case endOfStored(SubscriptionID)
  /// Whether the relay has accepted an event of ours, and the reason.
  case verdict(EventID, isAccepted: Bool, reason: String)
  case notice(String)
  /// The relay has ended a subscription, with the reason.
  case closed(SubscriptionID, reason: String)
  case challenge(String)
  /// A message of another type, which is ignored.
  case unknown

  /// Why a relay's message is refused: the relay breaks the protocol.
  public enum Problem: Error, Hashable, Sendable {
    /// The message has more than `NostrLimits.messageBytes`.
    case tooLong
    /// The bytes are not a message of a relay.
    case malformed
  }

  /// Decodes one message of a relay.
  public init(_ bytes: [UInt8]) throws(Problem) {
    guard bytes.count <= NostrLimits.messageBytes else { throw .tooLong }
    do throws(JSONCursor.Problem) {
      self = try Self.read(bytes)
    } catch {
      throw .malformed
    }
  }

  private static func read(_ bytes: [UInt8]) throws(JSONCursor.Problem) -> RelayMessage {
    var cursor = try JSONCursor(bytes)
    try cursor.expect(UInt8(ascii: "["))
    let name = try cursor.string(limit: 32)
    let message: RelayMessage
    switch name {
    case "EVENT":
      let subscription = try subscription(&cursor)
      try cursor.expect(UInt8(ascii: ","))
      guard cursor.peek() == UInt8(ascii: "{") else { throw .unexpected }
      let start = cursor.offset
      try cursor.skip()
      message = .event(subscription, event(Array(bytes[start..<cursor.offset])))
    case "EOSE": message = .endOfStored(try subscription(&cursor))
    case "OK":
      try cursor.expect(UInt8(ascii: ","))
      guard let id = EventID(hex: try cursor.string(limit: 64)) else { throw .unexpected }
      try cursor.expect(UInt8(ascii: ","))
      let isAccepted = try cursor.bool()
      message = .verdict(id, isAccepted: isAccepted, reason: try reason(&cursor))
    case "NOTICE": message = .notice(try reason(&cursor))
    case "CLOSED":
      let subscription = try subscription(&cursor)
      message = .closed(subscription, reason: try reason(&cursor))
    case "AUTH":
      try cursor.expect(UInt8(ascii: ","))
      message = .challenge(try cursor.string(limit: NostrLimits.challengeBytes))
    default: message = .unknown
    }
    // Later versions of the protocol may add elements.
    while cursor.take(UInt8(ascii: ",")) { try cursor.skip() }
    try cursor.expect(UInt8(ascii: "]"))
    try cursor.finish()
    return message
  }

  private static func event(_ bytes: [UInt8]) -> Result<ReceivedEvent, EventRefusal> {
    do throws(EventRefusal) {
      return .success(try ReceivedEvent(json: bytes))
    } catch {
      return .failure(error)
    }
  }

  private static func subscription(_ cursor: inout JSONCursor) throws(JSONCursor.Problem) -> SubscriptionID {
    try cursor.expect(UInt8(ascii: ","))
    return SubscriptionID(try cursor.string(limit: NostrLimits.subscriptionBytes))
  }

  /// Reads a text for people; empty if it is absent, and cut to `NostrLimits.reasonBytes`.
  private static func reason(_ cursor: inout JSONCursor) throws(JSONCursor.Problem) -> String {
    guard cursor.take(UInt8(ascii: ",")) else { return "" }
    return cut(try cursor.string(limit: NostrLimits.messageBytes))
  }

  private static func cut(_ text: String) -> String {
    guard text.utf8.count > NostrLimits.reasonBytes else { return text }
    var bytes = 0
    return String(
      String.UnicodeScalarView(
        text.unicodeScalars.prefix { scalar in
          bytes += UTF8.width(scalar)
          return bytes <= NostrLimits.reasonBytes
        }))
  }
}
