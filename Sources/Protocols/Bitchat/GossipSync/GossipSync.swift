import BitchatWire
import Common
import Crypto

/// Sends public packets to neighbours that missed them, and requests those that this node missed. Facts: bitchat.md
/// section 9, bitchat-delta.md section 2.
///
/// Gap repair requests the missing fragments of public packets from one neighbour at a time.
struct GossipSync: Sendable {
  /// Time from the last new fragment to the first request for missing ones (a repair request).
  static let repairPause = Duration.seconds(2)
  /// Time between repair requests. With the regular requests they stay below the 8 per 30 s that a neighbour answers.
  static let repairPeriod = Duration.seconds(6)
  /// Fragment count that fits a filter of usual size. Larger sets use a longer filter with a higher false positive
  /// rate.
  private static let usualFragments = 300
  private static let longFilterBytes = 1000
  private static let longFilterRate = 0.25
  /// Maximum packets of one answer, so that it fits into the queue of the link. The neighbour requests the rest
  /// later.
  private static let answerPackets = 192
  /// Maximum size of the answer to one sync request, in bytes.
  private static let answerBytes = 48 << 10

  private(set) var archive: GossipArchive
  private(set) var schedule = SyncSchedule()
  /// Time of the last repair request; nil before the first.
  private var repairedAt: Instant?
  /// Number of repair requests, which selects the neighbour for the next one.
  private var repairs = 0

  init(role: NodeRole) { archive = GossipArchive(keepsMessages: role.storesMessages) }

  // MARK: Archive

  /// Stores a packet.
  ///
  /// - Returns: whether it must be persisted.
  mutating func store(_ item: GossipArchive.Item) -> Bool { archive.keep(item) }

  /// Removes the announce of a peer that has left.
  mutating func leave(_ peer: PeerID) { archive.leave(peer) }

  /// Removes the packets of a peer.
  mutating func forget(_ peer: PeerID) { archive.forget(peer) }

  /// Removes the packets of a file of this node.
  mutating func forget(_ packets: FilePackets, of own: PeerID) {
    switch packets {
    case .fragments(let id): archive.forget(id, of: own)
    case .whole(let bytes): archive.forget(filePacket: bytes)
    }
  }

  /// Removes packets that are too old.
  mutating func age(at time: UInt64) { archive.age(at: time) }

  // MARK: Links

  /// Starts the requests on a link that now belongs to a peer.
  ///
  /// - Parameter isSlow: whether the peer is asked half as often.
  mutating func begin(_ link: LinkID, isSlow: Bool, at now: Instant) {
    schedule.end(link)
    schedule.begin(link, isSlow: isSlow, at: now)
  }

  mutating func end(_ link: LinkID) { schedule.end(link) }

  /// Ends all requests when this node leaves.
  mutating func endAll() { schedule = SyncSchedule() }

  /// Whether packets from a link may be answers to a request.
  func awaitsAnswer(on link: LinkID, at now: Instant) -> Bool { schedule.awaitsAnswer(on: link, at: now) }

  // MARK: Requests of this node

  /// Next time at which a regular request is due; nil without neighbours.
  var deadline: Instant? { schedule.deadline }

  /// Sends the requests that are due.
  ///
  /// - Parameter isQuiet: whether no files are requested, because other services need the radio.
  mutating func sendRequests(
    _ view: NodeView, isQuiet: Bool, _ clock: inout PacketClock, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    var intents: [Intent] = []
    for (link, types, round) in schedule.takeDue(&random, slow: view.dialects.slow, at: view.now) {
      guard let peer = view.peer(of: link) else { continue }
      var wanted = view.role.storesMessages ? types : types.intersection(.announce)
      if wanted.contains(.fragment) { wanted.insert(.fileTransfer) }
      if isQuiet { wanted.subtract([.fragment, .fileTransfer]) }
      let isBare = view.dialects[link].hasBareRequests && view.role.storesMessages
      let requests =
        isBare
        ? [archive.request(for: wanted, isBare: true, at: view.time)].compactMap(\.self)
        : archive.requests(for: wanted, round: round, at: view.time)
      intents += requests.map { Self.packet($0, to: peer, on: link, view, &clock) }
    }
    return intents
  }

  private static func packet(
    _ request: SyncRequest, to peer: PeerID, on link: LinkID, _ view: NodeView, _ clock: inout PacketClock
  ) -> Intent {
    let packet = Packet(
      type: .requestSync, timeToLive: 0, timestamp: clock.timestamp(at: view.time), sender: view.own, recipient: peer,
      payload: request.bytes)
    return .send(packet, as: .own, to: [link])
  }

  // MARK: Requests of neighbours

  /// Whether a request from this link may be answered; counts it if so.
  mutating func takeAnswer(on link: LinkID, at now: Instant) -> Bool { schedule.takeAnswer(on: link, at: now) }

  /// Neighbour that has sent a request.
  struct Asker {
    let peer: PeerID
    let link: LinkID
    /// Dialect that this node uses with it.
    let dialect: MeshDialect
    /// Whether messages of this node are also sent to it in the other dialect, for peers behind it.
    let takesBoth: Bool
  }

  /// Answers the request of a direct neighbour.
  ///
  /// - Parameters:
  ///   - own: this node.
  ///   - isQuiet: whether no files are sent, because other services need the radio.
  ///   - isUnderWay: whether a packet is about to be relayed. As an answer it would arrive first and would not be
  ///     relayed further.
  func answer(
    _ request: SyncRequest, of asker: Asker, own: PeerID, isQuiet: Bool, at time: UInt64,
    isUnderWay: (PacketView) -> Bool
  ) -> [Intent] {
    var intents: [Intent] = []
    var room = Self.answerBytes
    // Own public messages are archived in both dialects. Messages of others go to a neighbour of the other dialect only
    // if it shows them.
    for item in archive.missing(request, at: time) where item.sender != asker.peer {
      if item.type.mayBePublicMessage, item.type != asker.dialect.message,
        !asker.dialect.showsOtherMessages || item.sender == own && !asker.takesBoth
      {
        continue
      }
      if isQuiet, item.type == .fragment || item.type == .fileTransfer { continue }
      guard room > 0, let view = try? PacketView(item.bytes), !isUnderWay(view) else { continue }
      room -= max(item.bytes.count, Self.answerBytes / Self.answerPackets)
      let bytes = asker.dialect.marksAnswers ? view.syncAnswer : view.relayed(timeToLive: 0)
      intents.append(.sendAnswer(bytes, item.type, on: asker.link))
    }
    return intents
  }

  // MARK: Gap repair

  /// Time of the next repair request; nil if no neighbour stores fragments.
  ///
  /// - Parameter stalled: time at which an incomplete packet has waited for `repairPause`.
  func repairDeadline(stalled: Instant, _ links: LinkTable<MeshLink>, _ peers: PeerTable) -> Instant? {
    guard links.keys.contains(where: { Self.storesFragments($0, links, peers) }) else { return nil }
    return max(stalled, repairedAt?.advanced(by: Self.repairPeriod) ?? .zero)
  }

  /// Whether the neighbour of a link stores fragments and honours fragment IDs in requests: an Earshot peer, or iOS.
  /// Android would answer with everything else that it has.
  private static func storesFragments(_ link: LinkID, _ links: LinkTable<MeshLink>, _ peers: PeerTable) -> Bool {
    links[link]?.peer.map { peers.keepsFragments($0) } ?? false
  }

  /// Selects the neighbour for a repair request, each in turn.
  mutating func beginRepair(_ view: NodeView) -> (link: LinkID, peer: PeerID)? {
    let links = view.links.targets().filter { Self.storesFragments($0, view.links, view.peers) }
    guard !links.isEmpty else { return nil }
    repairedAt = view.now
    repairs += 1
    let link = links[repairs % links.count]
    guard let peer = view.peer(of: link) else { return nil }
    schedule.ask(link, at: view.now)
    return (link, peer)
  }

  /// Requests missing fragments from a neighbour.
  ///
  /// - Parameters:
  ///   - ids: IDs of the incomplete packets.
  ///   - known: fragments that this node has.
  func requestFragments(
    _ ids: [FragmentID], having known: [PacketID], from neighbour: (link: LinkID, peer: PeerID), _ view: NodeView,
    _ clock: inout PacketClock
  ) -> [Intent] {
    let isLong = known.count > Self.usualFragments && view.peers.isEarshot(neighbour.peer)
    let filter =
      isLong ? SyncFilter(known, bytes: Self.longFilterBytes, falsePositives: Self.longFilterRate) : SyncFilter(known)
    guard let request = try? SyncRequest(filter: filter, types: .fragment, fragments: ids) else { return [] }
    return [Self.packet(request, to: neighbour.peer, on: neighbour.link, view, &clock)]
  }
}
