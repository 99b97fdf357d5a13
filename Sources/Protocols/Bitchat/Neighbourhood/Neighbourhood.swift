import BitchatWire
import Common
import Crypto

/// Peers of this node, the links to its neighbours, and the times of announces. Facts: bitchat.md sections 1 and 4.
struct Neighbourhood: Sendable {
  /// Range of the announce interval with few links, in milliseconds. Facts: bitchat.md section 1.
  private static let announcePeriod: ClosedRange<Int64> = 11_000...19_000
  /// Range of the announce interval with many links, in milliseconds.
  private static let densePeriod: ClosedRange<Int64> = 22_000...38_000
  /// Range of the announce interval with more than `crowd` known peers, in milliseconds. The iOS app forgets peers
  /// that are silent for 45 s.
  private static let crowdedPeriod: ClosedRange<Int64> = 32_000...44_000
  private static let crowd = 256
  /// Range of the announce interval on battery power, in milliseconds.
  private static let sparingPeriod: ClosedRange<Int64> = 57_000...63_000
  /// Range of the announce interval while no neighbour has announced itself, in milliseconds.
  private static let isolatedPeriod: ClosedRange<Int64> = 3_500...4_500
  /// Minimum interval between announces to all links.
  private static let shortestPause = Duration.seconds(1)
  /// Time between checks for peers that have timed out.
  private static let lookPause = Duration.seconds(30)
  /// Time after a relayed announce in which further announces of the same peer are not relayed. A peer announces
  /// itself over each new link, and the first of these announces is enough.
  private static let burst = Duration.seconds(3)

  /// Peer ID of this node.
  private let own: PeerID
  private(set) var links = LinkTable<MeshLink>()
  private(set) var peers = PeerTable()
  /// Other links over which neighbours are reachable.
  private(set) var ways = PeerWays()
  /// Whether links are cut after 60 s without a packet.
  private var isStrict: Bool
  /// Earliest time at which a link may have to be cut for inactivity; nil without links. Received packets postpone
  /// it.
  private var silenceAt: Instant?
  /// Time of the next announce to all links; nil while the node does not announce.
  private var announceAt: Instant?
  private var announcedAt: Instant?
  /// Time of the next check for peers that have timed out.
  private var lookAt = Instant.zero

  /// - Parameters:
  ///   - own: this node.
  ///   - isStrict: whether links are cut after 60 s without a packet.
  init(own: PeerID, isStrict: Bool) {
    self.own = own
    self.isStrict = isStrict
  }

  /// Next time at which an announce, a check of peers or the end of a link is due; nil if nothing is scheduled.
  var deadline: Instant? {
    var first = silenceAt
    if let announceAt, first.map({ announceAt < $0 }) ?? true { first = announceAt }
    if peers.count > 0, first.map({ lookAt < $0 }) ?? true { first = lookAt }
    return first
  }

  // MARK: Start and stop

  mutating func start(at now: Instant) { (announceAt, lookAt) = (now, now) }

  /// Removes all links when this node leaves.
  mutating func stop() {
    links = LinkTable()
    (announceAt, silenceAt) = (nil, nil)
  }

  /// Sets whether links are cut after 60 s without a packet.
  mutating func cutSooner(_ isStrict: Bool) {
    guard isStrict != self.isStrict else { return }
    self.isStrict = isStrict
    silenceAt = firstEnd
  }

  // MARK: Links

  /// Peers with a link to this node.
  var neighbours: Set<PeerID> { Set(links.values.compactMap(\.peer)) }

  var hasNeighbours: Bool { links.values.contains { $0.peer != nil } }

  /// Whether this node has a link with a peer.
  func isNeighbour(_ peer: PeerID) -> Bool { links.values.contains { $0.peer == peer } }

  /// Device at the other end of a link.
  func origin(of link: LinkID) -> DeviceOrigin { links[link]?.origin ?? DeviceOrigin(link) }

  /// Mark of the device at the other end of a link.
  func mark(of link: LinkID) -> UInt32 { links[link]?.mark ?? DeviceOrigin(link).mark(for: own) }

  /// Own links of a neighbour; empty if the peer's own neighbour list denies them.
  func ownLinks(of peer: PeerID) -> [LinkID] { links.ownLinks(of: peer, own: own, peers, ways) }

  /// Whether a link takes fragments at full speed because its peer is an Earshot peer.
  func isFast(_ link: LinkID) -> Bool { links[link]?.peer.map { peers.isEarshot($0) } ?? false }

  /// Adds a link that has come up.
  mutating func open(_ link: LinkID, frameLimit: Int, isOurs: Bool, from origin: DeviceOrigin?, at now: Instant) {
    let state = MeshLink(
      frameLimit: frameLimit, isOurs: isOurs, origin: origin ?? DeviceOrigin(link), node: own, at: now)
    links[link] = state
    let end = state.end(isStrict: isStrict)
    silenceAt = min(silenceAt ?? end, end)
  }

  /// Sets the frame limit of a link.
  ///
  /// - Returns: whether the link was narrow, and is no longer.
  mutating func resize(_ link: LinkID, frameLimit: Int) -> Bool {
    let wasNarrow = links.isNarrow(link)
    links[link]?.frameLimit = frameLimit
    return wasNarrow && !links.isNarrow(link)
  }

  /// Removes a link.
  ///
  /// - Returns: the peer, if this was its last link.
  mutating func close(_ link: LinkID) -> PeerID? {
    let peer = links[link]?.peer
    links[link] = nil
    ways.forget(link)
    guard let peer, !isNeighbour(peer) else { return nil }
    ways.forgetWays(to: peer)
    return peer
  }

  /// Records a packet on the link at an index of `links`.
  mutating func handlePacket(at index: Int, _ now: Instant) { links.change(at: index) { $0.heardAt = now } }

  /// Counts a malformed packet.
  ///
  /// - Returns: whether the link has sent too many.
  mutating func isMalformedTooOften(on link: LinkID, at now: Instant) -> Bool {
    links[link]?.garbage.take(at: now) == false
  }

  /// Time at which the first link is cut if nothing is received on it; nil without links.
  private var firstEnd: Instant? {
    var first: Instant?
    for link in links.values {
      let end = link.end(isStrict: isStrict)
      if first.map({ end < $0 }) ?? true { first = end }
    }
    return first
  }

  /// Returns the links to be cut for inactivity now. The caller closes them.
  mutating func silentLinks(at now: Instant) -> [(link: LinkID, reason: CutReason)] {
    guard let silenceAt, silenceAt <= now else { return [] }
    self.silenceAt = nil
    var silent: [(link: LinkID, reason: CutReason)] = []
    for (link, state) in links {
      let end = state.end(isStrict: isStrict)
      if end <= now {
        silent.append((link, state.peer != nil ? .silent : state.formerPeer != nil ? .left : .noAnnounce))
      } else {
        self.silenceAt = min(self.silenceAt ?? end, end)
      }
    }
    return silent
  }

  /// Unbinds the links of a peer that has left. Its machine may use the links for other services. They are cut unless a
  /// peer announces itself over them.
  mutating func vacateLinks(of peer: PeerID, at now: Instant) {
    for (link, state) in links where state.peer == peer { links[link]?.vacate(at: now) }
    ways.forgetWays(to: peer)
    silenceAt = firstEnd
  }

  // MARK: Links and their peers

  /// Result of binding a link to a peer.
  enum Binding {
    /// The link already belongs to the peer, or does not exist.
    case unchanged
    /// The link already got another peer less than a minute ago.
    case refused
    case bound
  }

  /// Binds a link to the peer that announces itself directly over it. A link changes its peer at most once per
  /// `MeshLink.rebindTime`, except back to a peer that has left.
  mutating func bind(_ link: LinkID, to peer: PeerID, at now: Instant) -> Binding {
    guard var state = links[link], state.peer != peer else { return .unchanged }
    if let boundAt = state.boundAt, boundAt.duration(to: now) < MeshLink.rebindTime, state.formerPeer != peer {
      return .refused
    }
    let (before, isNew) = (state.peer, !isNeighbour(peer))
    (state.peer, state.formerPeer) = (peer, nil)
    state.boundAt = now
    state.broughtAt = 0
    links[link] = state
    noteNeighbour(peer, on: link, isNew: isNew, at: now)
    if let before, !isNeighbour(before) { ways.forgetWays(to: before) }
    return .bound
  }

  /// Records that a link now counts as the peer's own.
  private mutating func noteNeighbour(_ peer: PeerID, on link: LinkID, isNew: Bool, at now: Instant) {
    guard let known = peers[peer] else { return }
    ways.observe(peer, isNamed: known.names(own) != false, at: now)
    // Announces of the peer arrived over other links before; which ones is unknown.
    guard isNew, known.farHops > 1 else { return }
    for other in links.keys where other != link { ways.note(peer, over: other, hops: Int(known.farHops), at: now) }
  }

  /// Records an announce of a neighbour, which may name this node as its neighbour.
  mutating func observe(_ peer: PeerID, at now: Instant) {
    guard let known = peers[peer], isNeighbour(peer) else { return }
    ways.observe(peer, isNamed: known.names(own) != false, at: now)
  }

  /// Records a further link over which announces of a neighbour arrive, besides the neighbour's own link.
  ///
  /// - Returns: whether this is a new way to the neighbour.
  mutating func noteWay(of arrival: Arrival, to peer: PeerID, at now: Instant) -> Bool {
    guard !arrival.isAnswer, !arrival.isReassembled else { return false }
    if arrival.hops > 1 { peers.noteFar(peer, hops: arrival.hops) }
    guard links[arrival.link]?.peer != peer, isNeighbour(peer) else { return false }
    return ways.note(peer, over: arrival.link, hops: arrival.hops, at: now)
  }

  /// Evidence about a link in an announce that arrived directly over it.
  enum Claim {
    /// The link belongs to another peer, and the packet does not change that.
    case otherPeer
    /// The announce, or a newer one, has arrived over this link before.
    case known
    /// The announce is new.
    ///
    /// - Parameter isOurs: whether this node initiated the link.
    case new(isOurs: Bool)
  }

  /// Records that an announce arrived directly over a link that may be its sender's.
  mutating func claim(_ arrival: Arrival, of peer: PeerID) -> Claim {
    guard let state = links[arrival.link], state.peer == peer else { return .otherPeer }
    guard arrival.view.timestamp > state.broughtAt else { return .known }
    links[arrival.link]?.broughtAt = arrival.view.timestamp
    return .new(isOurs: state.isOurs)
  }

  /// Returns the links to be cut of two links between two nodes. The link made by the node with the smaller ID stays;
  /// the maker of the other link cuts it. Phones do not know this rule, so a link made by a phone is never cut.
  ///
  /// Both links to an Earshot peer must come from one device, because an attacker's link may count as the peer's own. A
  /// phone may have two addresses.
  func secondLinks(to peer: PeerID, at now: Instant) -> [LinkID] {
    guard peer < own else { return [] }
    let toPeer = links.filter { $0.value.peer == peer }
    let isPhone = !peers.isEarshot(peer)
    return toPeer.compactMap { link, state -> LinkID? in
      guard state.isOurs else { return nil }
      // A link that has only repeated announces may be an attacker's.
      let hasOther = toPeer.contains {
        !$0.value.isOurs && $0.value.broughtAt > 0 && (isPhone || $0.value.origin == state.origin)
      }
      // An announce that the peer sent over another link alone may be replayed by an attacker's link. Such a link does
      // not replace an established one.
      let isNew = state.boundAt.map { $0.duration(to: now) < MeshLink.announceTime } ?? true
      return hasOther && isNew ? link : nil
    }
  }

  // MARK: Own announces

  /// Makes the next announce to all links due.
  mutating func announceSoon(at now: Instant) { announceAt = now }

  /// Whether an announce to all links is due. If so, the next one is scheduled, and `announced` follows once it is
  /// sent.
  ///
  /// - Parameter isSparing: whether the node runs on battery.
  mutating func takeAnnounce(isSparing: Bool, at now: Instant, randomFrom random: inout some RandomSource) -> Bool {
    guard let due = announceAt, due <= now else { return false }
    if let announcedAt, announcedAt.duration(to: now) < Self.shortestPause {
      announceAt = announcedAt.advanced(by: Self.shortestPause)
      return false
    }
    let isIsolated = !links.isEmpty && !hasNeighbours
    let period =
      isIsolated
      ? Self.isolatedPeriod
      : peers.count > Self.crowd
        ? Self.crowdedPeriod : links.count >= RelayPolicy.dense ? Self.densePeriod : Self.announcePeriod
    let range = isSparing && !isIsolated ? Self.sparingPeriod : period
    announceAt = now.advanced(by: .milliseconds(random.number(in: range)))
    return true
  }

  mutating func announced(at now: Instant) { announcedAt = now }

  // MARK: Announces of other peers

  /// Handles an announce with a valid signature.
  ///
  /// - Returns: what is new, and the peers that were evicted.
  mutating func learn(
    _ announcement: Announcement, at time: UInt64, _ arrival: Arrival, now: Instant
  ) throws(PeerTable.Refusal) -> (novelty: PeerTable.Novelty, forgotten: [PeerID]) {
    try peers.learn(announcement, at: time, hops: hops(of: arrival, from: announcement.peerID), now: now)
  }

  /// Handles a verified announce with the payload of the peer's latest one.
  ///
  /// - Returns: whether the distance has changed, and whether a similar announce was relayed shortly before; nil if the
  ///   peer is no longer known.
  mutating func refresh(by arrival: Arrival, at now: Instant) -> (isChanged: Bool, isBurst: Bool)? {
    let peer = arrival.view.sender
    return peers.refresh(
      peer, at: arrival.view.timestamp, hops: hops(of: arrival, from: peer), burst: Self.burst, now: now)
  }

  /// Number of hops to the sender of an announce. A neighbour's sync answer does not show it.
  private func hops(of arrival: Arrival, from peer: PeerID) -> Int {
    arrival.isAnswer ? max(2, peers[peer]?.hops ?? 2) : arrival.hops
  }

  /// Decides whether a changed announce or a leave of a peer is relayed.
  mutating func passOn(_ peer: PeerID, at now: Instant) -> Bool { peers.passOn(peer, burst: Self.burst, at: now) }

  /// Records that an announce of a peer was not relayed, because enough copies of it were received.
  mutating func holdBack(_ peer: PeerID) { peers.holdBack(peer) }

  /// Records that an announce of a peer was relayed.
  mutating func noteRelay(of peer: PeerID) { peers.sentOn(peer) }

  // MARK: Peers

  /// Records a verified or decrypted packet of a peer.
  mutating func handlePacket(of peer: PeerID, version: PacketVersion? = nil, at now: Instant) {
    peers.handlePacket(of: peer, version: version, at: now)
  }

  /// Removes a peer that has sent a leave, and unbinds its links.
  ///
  /// - Parameter time: timestamp of the leave.
  mutating func leave(_ peer: PeerID, at now: Instant, time: UInt64) {
    peers.handlePacket(of: peer, at: now)
    peers.leave(peer, at: time)
    vacateLinks(of: peer, at: now)
  }

  /// Removes the peers that have timed out, if a check is due.
  ///
  /// - Returns: the removed peers; nil if no check is due.
  mutating func takeSilentPeers(at now: Instant) -> [PeerID]? {
    guard lookAt <= now else { return nil }
    lookAt = now.advanced(by: Self.lookPause)
    return peers.forget(notHeardSince: now.advanced(by: .zero - MeshLink.silentTime))
  }

  /// Removes the entries and pinned key of a forgotten peer.
  mutating func forget(_ peer: PeerID) {
    peers.forget(peer, withPin: true)
    peers.hold(peer, false)
    ways.forget(peer)
  }

  /// Sets whether a peer is a favourite or verified, so that it is evicted last.
  mutating func hold(_ peer: PeerID, _ isPrecious: Bool) { peers.hold(peer, isPrecious) }

  // MARK: Pinned keys

  /// Returns the pinned key of a peer that must be persisted; nil if none must be.
  func duePin(of peer: PeerID) -> Ed25519.PublicKey? { peers.isPinDue(peer) ? peers.pin(of: peer) : nil }

  /// Records that the pinned key of a peer was persisted.
  mutating func keptPin(of peer: PeerID) { peers.keptPin(of: peer) }

  /// Pins the signing key that a peer has proven inside Noise, instead of any other.
  ///
  /// - Returns: whether the peer was known with another key. It is removed then, and its links are unbound, because an
  ///   attacker has announced it.
  mutating func prove(_ peer: PeerID, _ signingKey: Ed25519.PublicKey, at now: Instant) -> Bool {
    guard peers.prove(peer, signingKey, at: now) else { return false }
    vacateLinks(of: peer, at: now)
    return true
  }

  /// Restores the pinned key of a peer.
  mutating func restorePin(_ peer: PeerID, _ signingKey: Ed25519.PublicKey, isProven: Bool, at now: Instant) {
    peers.restorePin(peer, signingKey, isProven: isProven, at: now)
  }

  /// Restores the Noise key of a peer that has a pin.
  mutating func restoreNoiseKey(_ peer: PeerID, _ key: X25519.PublicKey) { peers.restoreNoiseKey(peer, key) }
}
