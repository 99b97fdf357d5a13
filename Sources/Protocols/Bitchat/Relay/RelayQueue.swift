import Common

/// Packets of others that wait for their moment to be passed on. Facts: bitchat.md section 8.2.
///
/// A packet becomes superfluous when enough neighbours have brought it that would pass it on as far as this node would. A copy counts once
/// for each neighbour, and only if it comes with a time to live that is at most one lower than the one that this node would send: copies
/// that one link repeats, or that are about to end, keep no packet from others.
struct RelayQueue: Sendable {
  /// A packet that came over a link.
  struct Copy: Hashable, Sendable {
    let link: LinkID
    /// The peer at the other end of the link; nil while it has not announced itself.
    let peer: PeerID?
    /// The time to live that it came with.
    let timeToLive: UInt8

    /// Whether both come from one neighbour.
    func isOfSameNeighbour(as other: Copy) -> Bool { link == other.link || peer != nil && peer == other.peer }
  }

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
    /// The copies that came, the first one first: one for each link.
    private(set) var copies: [Copy]
    let decision: RelayDecision
    var due: Instant
    /// Whether it goes to peers alone that speak dialect S.
    let isOfSeed: Bool

    init(
      received: [UInt8], key: WireKey, type: MessageType, sender: PeerID, recipient: PeerID?, nextHop: PeerID?,
      first: Copy, decision: RelayDecision, due: Instant, isOfSeed: Bool = false
    ) {
      (self.received, timeToLive, self.key, self.type) = (received, decision.timeToLive, key, type)
      (self.sender, self.recipient, self.nextHop) = (sender, recipient, nextHop)
      (copies, self.decision, self.due, self.isOfSeed) = ([first], decision, due, isOfSeed)
    }

    /// The bytes that go on.
    var bytes: [UInt8] {
      var bytes = received
      if bytes.count > 2 { bytes[2] = timeToLive }
      return bytes
    }

    /// The link of the first copy.
    var link: LinkID? { copies.first?.link }

    /// The links whose peers gain nothing by getting the packet from this node.
    var heardOn: [LinkID] { copies.filter { reachesAsFar($0) }.map(\.link) }

    /// How many neighbours have brought it and pass it on as far as this node would.
    var neighbours: Int {
      var counted: [Copy] = []
      for copy in copies where reachesAsFar(copy) {
        // The first copy is why the packet is here. Another one counts when it is known whose link it came over.
        guard copy.peer != nil || copy.link == copies.first?.link else { continue }
        if !counted.contains(where: { $0.isOfSameNeighbour(as: copy) }) { counted.append(copy) }
      }
      return counted.count
    }

    /// Whether the neighbour that has brought a copy has passed it on about as far as this node would.
    private func reachesAsFar(_ copy: Copy) -> Bool { copy.timeToLive >= timeToLive - min(timeToLive, 1) }

    /// - Parameter timeToLive: what the copy would be passed on with; nil if that is no matter.
    mutating func add(_ copy: Copy, timeToLive: UInt8?) {
      if let place = copies.firstIndex(where: { $0.link == copy.link }) {
        if copies[place].timeToLive < copy.timeToLive { copies[place] = copy }
      } else {
        copies.append(copy)
      }
      if let timeToLive { self.timeToLive = max(self.timeToLive, timeToLive) }
    }
  }

  /// What became of a copy of a packet.
  enum Hearing: Hashable, Sendable {
    /// The packet does not wait.
    case unknown
    /// It goes on with this time to live.
    case waits(UInt8)
    /// It is superfluous now, and is not passed on.
    case superfluous
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

  /// A copy of a packet came.
  ///
  /// - Parameter timeToLive: what the copy would be passed on with; nil if that is no matter. The packet goes on with the higher one:
  ///   which copy comes first is chance, and the one that came a shorter way reaches further.
  mutating func hear(_ copy: Copy, of key: WireKey, timeToLive: UInt8? = nil) -> Hearing {
    guard let index = relays.firstIndex(where: { $0.key == key }) else { return .unknown }
    relays[index].add(copy, timeToLive: timeToLive)
    guard relays[index].neighbours < relays[index].decision.copiesEnough else {
      remove(at: index)
      return .superfluous
    }
    return .waits(relays[index].timeToLive)
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

extension RelayQueue.Relay {
  func isOfSameConversation(as other: Self) -> Bool {
    sender == other.sender && recipient == other.recipient
  }
}
