import Common

/// Packets of others that wait for their moment to be passed on. Facts: bitchat.md section 8.2.
struct PendingRelays: Sendable {
  /// A packet that is to be passed on.
  struct Relay: Sendable {
    /// The bytes as they came.
    let received: [UInt8]
    /// The time to live that they go on with.
    var timeToLive: UInt8
    let key: WireKey
    let type: MessageType
    let sender: PeerID
    /// The peer that it is for; nil if it is for everybody.
    let recipient: PeerID?
    /// The hop that comes next on the packet's route; nil without a route.
    let nextHop: PeerID?
    /// Where it was heard.
    var heardOn: [LinkID]
    let decision: RelayDecision
    var copies = 1
    var due: Instant
    /// Whether it goes to peers alone that speak dialect S.
    var isOfSeed = false

    /// The bytes that go on.
    var bytes: [UInt8] {
      var bytes = received
      if bytes.count > 2 { bytes[2] = timeToLive }
      return bytes
    }
  }

  /// The most packets that wait, and the most bytes.
  private static let limit = 1024
  private static let byteLimit = 2 << 20

  /// In the order of their moments.
  private var relays: [Relay] = []
  private(set) var bytes = 0

  var count: Int { relays.count }
  /// Of the packets that wait.
  var keys: Set<WireKey> { Set(relays.map(\.key)) }
  func has(_ key: WireKey) -> Bool { relays.contains { $0.key == key } }
  /// When `takeDue` has something to give; nil without packets.
  var deadline: Instant? { relays.first?.due }

  /// Takes a packet in.
  ///
  /// - Returns: how many packets that waited were dropped for want of room.
  mutating func add(_ relay: Relay) -> Int {
    var relay = relay
    // What one peer sends to another under Noise stays in order: a message that eight others overtake is lost.
    if relay.recipient != nil, let last = relays.last(where: { $0.isOfSameConversation(as: relay) }) {
      relay.due = max(relay.due, last.due)
    }
    let place = relays.lastIndex { $0.due <= relay.due }.map { $0 + 1 } ?? 0
    relays.insert(relay, at: place)
    bytes += relay.received.count
    var dropped = 0
    while relays.count > Self.limit || bytes > Self.byteLimit {
      // Public chat first; sync brings it later.
      remove(at: relays.firstIndex { $0.recipient == nil && $0.type != .announce } ?? 0)
      dropped += 1
    }
    return dropped
  }

  /// A copy of a packet was heard on another link.
  ///
  /// - Parameter timeToLive: what the copy would be passed on with; nil if that is no matter. The packet goes on with the higher one:
  ///   which copy comes first is chance, and the one that came a shorter way reaches further.
  /// - Returns: true if the packet had waited and is superfluous now.
  mutating func hear(_ key: WireKey, on link: LinkID, timeToLive: UInt8? = nil) -> Bool {
    guard let index = relays.firstIndex(where: { $0.key == key }) else { return false }
    relays[index].copies += 1
    if !relays[index].heardOn.contains(link) { relays[index].heardOn.append(link) }
    guard relays[index].copies < relays[index].decision.copiesEnough else {
      remove(at: index)
      return true
    }
    if let timeToLive { relays[index].timeToLive = max(relays[index].timeToLive, timeToLive) }
    return false
  }

  /// The packets whose moment has come.
  mutating func takeDue(at now: Instant) -> [Relay] {
    // As an array of its own: a slice would have the rest copied.
    let due = Array(relays.prefix { $0.due <= now })
    relays.removeFirst(due.count)
    for relay in due { bytes -= relay.received.count }
    return due
  }

  mutating func removeAll() { (relays, bytes) = ([], 0) }

  private mutating func remove(at index: Int) { bytes -= relays.remove(at: index).received.count }
}

extension PendingRelays.Relay {
  func isOfSameConversation(as other: Self) -> Bool {
    sender == other.sender && recipient == other.recipient
  }
}
