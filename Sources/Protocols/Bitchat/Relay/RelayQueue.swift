import Common

/// Packets of other nodes that wait for their due time to be relayed. Facts: bitchat.md section 8.2.
///
/// The relay of a packet is superfluous when enough neighbours have sent it that relay it as far as this node would.
/// Each neighbour counts once, and only if its copy has a time to live at most one lower than the one that this node
/// would send. Repeated copies over one link, and copies with a low time to live, therefore cannot suppress a packet.
struct RelayQueue: Sendable {
  /// A packet that came over a link.
  struct Copy: Hashable, Sendable {
    let link: LinkID
    /// The peer at the other end of the link; nil while it has not announced itself.
    let peer: PeerID?
    /// The time to live that it came with.
    let timeToLive: UInt8

    /// Whether both copies come from the same neighbour.
    func isOfSameNeighbour(as other: Copy) -> Bool { link == other.link || peer != nil && peer == other.peer }
  }

  /// A packet that waits to be relayed.
  struct Relay: Sendable {
    /// The received bytes.
    let received: [UInt8]
    /// The time to live with which the packet is relayed.
    var timeToLive: UInt8
    let key: WireKey
    let type: MessageType
    let sender: PeerID
    /// The recipient; nil if the packet is for everybody.
    let recipient: PeerID?
    /// The hop that comes next on the packet's route; nil without a route.
    let nextHop: PeerID?
    /// The received copies in order of arrival, one for each link.
    private(set) var copies: [Copy]
    let decision: RelayDecision
    var due: Instant
    /// Whether it is relayed only to peers that use dialect S.
    let isOfSeed: Bool

    init(
      received: [UInt8], key: WireKey, type: MessageType, sender: PeerID, recipient: PeerID?, nextHop: PeerID?,
      first: Copy, decision: RelayDecision, due: Instant, isOfSeed: Bool = false
    ) {
      (self.received, timeToLive, self.key, self.type) = (received, decision.timeToLive, key, type)
      (self.sender, self.recipient, self.nextHop) = (sender, recipient, nextHop)
      (copies, self.decision, self.due, self.isOfSeed) = ([first], decision, due, isOfSeed)
    }

    /// The bytes to relay.
    var bytes: [UInt8] {
      var bytes = received
      if bytes.count > 2 { bytes[2] = timeToLive }
      return bytes
    }

    /// The link of the first copy.
    var link: LinkID? { copies.first?.link }

    /// The links whose peers gain nothing by getting the packet from this node.
    var heardOn: [LinkID] { copies.filter { reachesAsFar($0) }.map(\.link) }

    /// Number of neighbours that have sent the packet and relay it as far as this node would.
    var neighbours: Int {
      var counted: [Copy] = []
      for copy in copies where reachesAsFar(copy) {
        // The first copy always counts. Any other copy counts only if the peer of its link is known.
        guard copy.peer != nil || copy.link == copies.first?.link else { continue }
        if !counted.contains(where: { $0.isOfSameNeighbour(as: copy) }) { counted.append(copy) }
      }
      return counted.count
    }

    /// Whether the neighbour that sent a copy relays it about as far as this node would.
    private func reachesAsFar(_ copy: Copy) -> Bool { copy.timeToLive >= timeToLive - min(timeToLive, 1) }

    /// - Parameter timeToLive: the time to live with which this node would relay the copy; nil to ignore it.
    mutating func add(_ copy: Copy, timeToLive: UInt8?) {
      if let place = copies.firstIndex(where: { $0.link == copy.link }) {
        if copies[place].timeToLive < copy.timeToLive { copies[place] = copy }
      } else {
        copies.append(copy)
      }
      if let timeToLive { self.timeToLive = max(self.timeToLive, timeToLive) }
    }
  }

  /// The effect of a copy on the queue.
  enum Hearing: Hashable, Sendable {
    /// The packet is not in the queue.
    case unknown
    /// The packet waits, and will be relayed with this time to live.
    case waits(UInt8)
    /// The relay has become superfluous, and the packet was removed.
    case superfluous
  }

  /// Maximum number of waiting packets, and of their bytes.
  private static let limit = 1024
  private static let byteLimit = 2 << 20

  /// In the order of their due times.
  private var relays: [Relay] = []
  private(set) var bytes = 0

  var count: Int { relays.count }
  /// The keys of the waiting packets.
  var keys: Set<WireKey> { Set(relays.map(\.key)) }
  /// When the next packet is due; nil without packets.
  var deadline: Instant? { relays.first?.due }

  /// Adds a packet.
  ///
  /// - Returns: the number of waiting packets that were dropped for lack of capacity.
  mutating func add(_ relay: Relay) -> Int {
    var relay = relay
    // Packets from one peer to another keep their order: Noise loses a message that eight later ones overtake.
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

  /// Notes a copy of a packet.
  ///
  /// - Parameter timeToLive: the time to live with which this node would relay the copy; nil to ignore it. The packet
  ///   is relayed with the highest one of its copies: the first copy to arrive is not always the one that took the
  ///   shortest way.
  mutating func hear(_ copy: Copy, of key: WireKey, timeToLive: UInt8? = nil) -> Hearing {
    guard let index = relays.firstIndex(where: { $0.key == key }) else { return .unknown }
    relays[index].add(copy, timeToLive: timeToLive)
    guard relays[index].neighbours < relays[index].decision.copiesEnough else {
      remove(at: index)
      return .superfluous
    }
    return .waits(relays[index].timeToLive)
  }

  /// Removes and returns the packets that are due.
  mutating func takeDue(at now: Instant) -> [Relay] {
    // A separate array: a slice would force a copy of the rest.
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
