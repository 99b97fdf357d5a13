import BitchatWire
import Common
import Crypto

/// Relays packets of other nodes: decides which, and over which links, and holds them until they are due. Facts:
/// bitchat.md section 8.2.
///
/// The relay of a packet is superfluous when enough neighbours have sent it that relay it as far as this node would.
/// Each neighbour counts once, and only if its copy has a time to live at most one lower than the one that this node
/// would send. Repeated copies over one link, and copies with a low time to live, therefore cannot suppress a packet.
struct RelayQueue: Sendable {
  /// A packet that was received over a link.
  struct Copy: Hashable, Sendable {
    let link: LinkID
    /// The peer at the other end of the link; nil while it has not announced itself.
    let peer: PeerID?
    /// The time to live with which the packet arrived.
    let timeToLive: UInt8

    /// Whether both copies come from the same neighbour.
    func isOfSameNeighbour(as other: Copy) -> Bool { link == other.link || peer != nil && peer == other.peer }
  }

  /// A packet in the queue, with the copies of it that were received.
  struct Relay: Sendable {
    /// The packet's bytes as they were received.
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
    /// Dialect of the packet. It is relayed only over links that accept the dialect.
    let dialect: MeshDialect

    init(
      received: [UInt8], key: WireKey, type: MessageType, sender: PeerID, recipient: PeerID?, nextHop: PeerID?,
      first: Copy, decision: RelayDecision, due: Instant, dialect: MeshDialect = .live
    ) {
      (self.received, timeToLive, self.key, self.type) = (received, decision.timeToLive, key, type)
      (self.sender, self.recipient, self.nextHop) = (sender, recipient, nextHop)
      (copies, self.decision, self.due, self.dialect) = ([first], decision, due, dialect)
    }

    /// The bytes that are relayed: the received ones with another TTL.
    var bytes: [UInt8] {
      var bytes = received
      if bytes.count > 2 { bytes[2] = timeToLive }
      return bytes
    }

    /// The link over which the first copy of the packet arrived.
    var link: LinkID? { copies.first?.link }

    /// Links to whose peers this node need not send the packet, because they sent a copy that reaches as far.
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

    /// Records a copy.
    ///
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

  /// Effect of a further copy on the queued packet.
  enum CopyEffect: Hashable, Sendable {
    /// The packet is not in the queue.
    case unknown
    /// The packet waits, and will be relayed with this time to live.
    case waits(UInt8)
    /// The relay has become superfluous, and the packet was removed.
    case superfluous
  }

  /// Maximum number of packets that wait to be relayed.
  private static let limit = 1024
  /// Maximum size of the packets that wait to be relayed, in bytes.
  private static let byteLimit = 2 << 20

  /// Waiting packets, in the order of their due times.
  private var relays: [Relay] = []
  private(set) var bytes = 0

  var count: Int { relays.count }
  /// The keys of the waiting packets.
  var keys: Set<WireKey> { Set(relays.map(\.key)) }
  /// Time at which the next packet is due; nil without packets.
  var deadline: Instant? { relays.first?.due }
  /// Time at which the node wakes up for a packet alone; nil without packets. After `deadline` the packet is sent if
  /// the node is awake for another reason.
  var latest: Instant? {
    var latest: Instant?
    for relay in relays {
      if let latest, relay.due >= latest { break }
      let end = relay.due.advanced(by: relay.decision.slack)
      latest = min(latest ?? end, end)
    }
    return latest
  }

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

  /// Handles a copy of a packet.
  ///
  /// - Parameter timeToLive: the time to live with which this node would relay the copy; nil to ignore it. The packet
  ///   is relayed with the highest one of its copies: the first copy to arrive is not always the one that took the
  ///   shortest way.
  mutating func handleCopy(_ copy: Copy, of key: WireKey, timeToLive: UInt8? = nil) -> CopyEffect {
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

  // MARK: Decisions

  /// Settings and facts that decide whether a packet is relayed.
  struct Rules {
    let policy: RelayPolicy
    /// Maximum TTL of relayed encrypted packets; nil for no limit.
    let encryptedLimit: UInt8?
    /// Number of links of this node. In the apps' policy it decides about delay and suppression of relays.
    let degree: Int

    /// Decides about a packet by its header.
    ///
    /// - Parameter isOfKnown: whether the packet is an announce of a peer that was known before.
    func decide(_ view: PacketView, isOfKnown: Bool = false) -> RelayDecision? {
      let subject = RelaySubject(
        type: view.liveType, timeToLive: view.timeToLive,
        isDirected: view.recipient != nil, isOfKnown: isOfKnown)
      return policy.decide(subject, degree: degree, encryptedLimit: encryptedLimit)
    }

    /// Decides about a received packet; nil if it is not relayed.
    ///
    /// - Parameters:
    ///   - own: this node.
    ///   - isAccepted: whether a link accepts the packet's dialect.
    func decide(_ arrival: Arrival, isOfKnown: Bool, own: PeerID, isAccepted: Bool) -> RelayDecision? {
      let view = arrival.view
      // Packets for this node, and answers to its requests, are not relayed.
      guard view.recipient != own, !arrival.isReassembled, !arrival.isAnswer else { return nil }
      guard isAccepted, view.mayPassOn else { return nil }
      // A file has thousands of fragments. Neighbours that arrive meanwhile request the missing ones.
      guard view.liveType != .fragment || degree > 1 else { return nil }
      return decide(view, isOfKnown: isOfKnown)
    }
  }

  /// Queues a packet of another node, which is relayed after a random delay.
  ///
  /// - Parameters:
  ///   - peer: peer of the link that the packet arrived on.
  ///   - own: this node.
  mutating func add(
    _ arrival: Arrival, _ key: WireKey, _ decision: RelayDecision, from peer: PeerID?, own: PeerID, at now: Instant,
    randomFrom random: inout some RandomSource
  ) -> [Intent] {
    let view = arrival.view
    let delay = Duration.milliseconds(random.number(in: decision.delay))
    let dropped = add(
      Relay(
        received: view.bytes, key: key, type: view.liveType, sender: view.sender,
        recipient: view.recipient, nextHop: Self.nextHop(of: view, after: own), first: Self.copy(arrival, from: peer),
        decision: decision, due: now.advanced(by: delay), dialect: view.dialect))
    let noted = Intent.noteReach(decision.timeToLive, of: key, view.type)
    return dropped == 0 ? [noted] : [.count(\.relaysDropped, by: UInt64(dropped)), noted]
  }

  private static func copy(_ arrival: Arrival, from peer: PeerID?) -> Copy {
    Copy(link: arrival.link, peer: peer, timeToLive: arrival.view.timeToLive)
  }

  /// Returns the hop after this node on the packet's route; the recipient if this node is the last hop.
  private static func nextHop(of view: PacketView, after own: PeerID) -> PeerID? {
    guard let place = view.route.firstIndex(of: own) else { return nil }
    return view.route[(place + 1)...].first ?? view.recipient
  }

  /// Handles a copy of a packet. It may make the relay of the packet superfluous, or extend its reach. The apps use the
  /// first copy only.
  ///
  /// - Parameters:
  ///   - peer: peer of the link that the copy arrived on.
  ///   - decision: decision about the copy; nil to ignore its TTL.
  mutating func handleCopy(
    _ arrival: Arrival, _ key: WireKey, from peer: PeerID?, _ decision: RelayDecision?
  ) -> CopyEffect {
    handleCopy(Self.copy(arrival, from: peer), of: key, timeToLive: decision?.timeToLive)
  }

  // MARK: Due packets

  /// Sends the packets that are due.
  ///
  /// - Parameter hash: keyed hash that selects links.
  mutating func sendDue(_ view: NodeView, _ hash: KeyedHash) -> [Intent] {
    takeDue(at: view.now).flatMap { Self.departure(of: $0, view, hash) }
  }

  private static func departure(of relay: Relay, _ view: NodeView, _ hash: KeyedHash) -> [Intent] {
    var targets = targets(of: relay, view, hash)
    guard !targets.isEmpty else { return [] }
    var intents: [Intent] = [.count(\.relayed)]
    if relay.type == .announce { intents.append(.announceRelayed(of: relay.sender)) }
    let bytes = relay.bytes
    if relay.type == .fragment, relay.heardOn.contains(where: { view.isFast($0) }) {
      for link in targets where !view.isFast(link) {
        // A fragment that is too long for a link is not relayed there.
        let fits = bytes.count <= view.links.frameLimit(of: link)
        intents.append(fits ? .paceFragment(bytes, on: link, from: relay.link) : .count(\.unsendable))
      }
      targets = targets.filter { view.isFast($0) }
    }
    // Packets are relayed unchanged, in fragments where a link is too narrow.
    if !targets.isEmpty { intents.append(.sendBytes(bytes, as: relay.packetClass, to: targets)) }
    return intents
  }

  /// Selects the links over which a packet is relayed.
  private static func targets(of relay: Relay, _ view: NodeView, _ hash: KeyedHash) -> [LinkID] {
    let targets = view.links.targets(but: relay.heardOn).filter { view.dialects.accepts(relay.dialect, on: $0) }
    if let hop = [relay.recipient, relay.nextHop].compactMap(\.self).first(where: { !view.ownLinks(of: $0).isEmpty }),
      relay.type == .fragment || !view.isDoubtful(hop)
    {
      // A packet for a neighbour, or with a neighbour as next hop, is sent over its own links and those that its
      // announces arrive over. Fragments use only its own links if it names this node as its neighbour.
      let isSure = relay.type == .fragment && view.peers[hop]?.names(view.own) == true
      let direct = view.links.links(to: hop)
      let others = isSure ? [] : view.ways.others(to: hop, besides: direct, at: view.now).map(\.link)
      return targets.filter { view.peer(of: $0) == hop || others.contains($0) }
    }
    return relay.decision.isForSome ? some(of: targets, for: relay, hash) : targets
  }

  /// Selects a subset of the links, as many as the iOS app would. The choice is constant for one packet.
  private static func some(of targets: [LinkID], for relay: Relay, _ hash: KeyedHash) -> [LinkID] {
    let ranked = targets.map { link in
      (link, withUnsafeBytes(of: (relay.key.hash.low, link.number)) { hash.hash($0) }.low)
    }
    return ranked.sorted { $0.1 < $1.1 }.prefix(RelayPolicy.someLinks(of: targets.count)).map(\.0)
      .sorted { $0.number < $1.number }
  }
}

extension RelayQueue.Relay {
  func isOfSameConversation(as other: Self) -> Bool {
    sender == other.sender && recipient == other.recipient
  }

  fileprivate var packetClass: PacketClass {
    switch type {
    case .announce: .announce
    case .fragment: .fragment
    case _ where recipient != nil: .directed
    default: .publicChat
    }
  }
}
