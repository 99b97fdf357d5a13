import BitchatWire
import Common
import Crypto

extension MeshEngine {
  mutating func announceIfDue(_ turn: inout Turn) {
    let isDue = neighbourhood.takeAnnounce(isSparing: configuration.isSparing, at: turn.now, randomFrom: &random)
    guard isDue, canSend, !neighbourhood.links.isEmpty, let packet = announcement(turn) else { return }
    neighbourhood.announced(at: turn.now)
    broadcast(packet, as: .announce, &turn)
  }

  /// Sends an announce over one link.
  mutating func announce(on link: LinkID, _ turn: inout Turn) {
    guard canSend, let packet = announcement(turn) else { return }
    transmit(packet, as: .announce, to: [link], &turn)
  }

  private mutating func announcement(_ turn: Turn) -> Packet? {
    let near = neighbours.sorted().prefix(Limits.neighbours)
    let announcement = try? Announcement(
      nickname: configuration.nickname, noiseKey: identity.noiseKey.publicKey,
      signingKey: identity.signingKey.publicKey,
      neighbours: configuration.role.isDescribed && !near.isEmpty ? Array(near) : nil,
      capabilities: configuration.role.isDescribed && !Capabilities.own.isEmpty ? .own : nil,
      dialect: configuration.translation.announced, isEarshot: true, longestWrite: configuration.longestWrite,
      courierPlaces: courier.saidPlaces)
    guard let announcement else { return nil }
    return Packet(type: .announce, timestamp: timestamp(turn), sender: identity.id, payload: announcement.bytes)
  }

  // MARK: Announces of other peers

  /// How the signing key of an announce compares with the peer's pinned key, or that the announce is refused.
  enum AnnounceOutcome {
    /// The signing key equals the pinned one, or is the first.
    case taken
    /// The signing key differs from the pinned one, which is not proven.
    case contested
    case refused
  }

  /// Handles an announce, which carries the key that verifies it.
  mutating func handleAnnounce(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> AnnounceOutcome {
    guard let announcement = try? Announcement(reading: packet.payload), announcement.peerID == packet.sender else {
      counters.badAnnounces += 1
      return .refused
    }
    let pinned = neighbourhood.peers.pin(of: packet.sender)
    let isOther = pinned.map { $0 != announcement.signingKey } ?? false
    if isOther {
      counters.otherSigningKeys += 1
      guard !neighbourhood.peers.isProven(packet.sender) else { return .refused }
    }
    // A peer that was evicted from the table but has a pin is not a new identity.
    let isKnown = !isOther && (neighbourhood.peers.has(packet.sender) || pinned != nil)
    guard isKnown || gate.takeIdentity(on: arrival.link, at: turn.now) else {
      counters.tooManyIdentities += 1
      return .refused
    }
    guard checkSignature(arrival, packet, announcement.signingKey, isKnownAnnounce: isKnown, turn) else {
      return .refused
    }
    if !isOther { noteClock(of: arrival, turn) }
    guard !isRefused(PacketGate.untimely(announce: packet.timestamp, arrival, at: turn.time)) else {
      reportClock(of: arrival, announcement.nickname, &turn)
      return .refused
    }
    guard !isOther else {
      contest(announcement, arrival, &turn)
      // If the peer has a session, it may have proven the key already.
      return neighbourhood.peers.pin(of: packet.sender) == announcement.signingKey ? .refused : .contested
    }
    learn(announcement, packet, arrival, &turn)
    return .taken
  }

  private mutating func learn(
    _ announcement: Announcement, _ packet: Packet, _ arrival: Arrival, _ turn: inout Turn
  ) {
    let peer = packet.sender
    let dialect = neighbourhood.peers[peer]?.dialect
    guard let news = try? neighbourhood.learn(announcement, at: packet.timestamp, arrival, now: turn.now) else {
      counters.oldAnnounces += 1
      // The announce is not new, but it still shows a link to the peer: a newer announce overtook it on another link.
      claim(arrival, of: peer, &turn)
      return
    }
    translator.noteAnnounce(of: peer, before: dialect, now: announcement.dialect)
    keepPin(of: peer, &turn)
    for other in news.forgotten {
      gossip.leave(other)
      turn.actions.append(.gone(other))
    }
    if news.novelty != .same { turn.actions.append(.peer(peer)) }
    claim(arrival, of: peer, &turn)
    if news.novelty == .newPeer {
      messages.hurry(peer, at: turn.now)
      files.hurry(to: peer, at: turn.now)
    }
    askForKeyOfVerified(peer, arrival, &turn)
    if !courier.isEmpty, let known = neighbourhood.peers[peer] {
      perform(courier.handlePeer(known, arrival, view(turn)), &turn)
    }
    for chat in gate.takeWaiting(of: peer) {
      accept(chat.view, on: chat.link, isReassembled: chat.isReassembled, &turn)
    }
  }

  /// Asks a peer for its signing key if a user has verified its fingerprint while it was out of reach.
  mutating func askForKeyOfVerified(_ peer: PeerID, _ arrival: Arrival, _ turn: inout Turn) {
    guard verified.contains(peer), !neighbourhood.peers.isProven(peer), !challenges.isAwaited(peer),
      let known = neighbourhood.peers[peer]
    else {
      return
    }
    askForKey(of: peer, known.noiseKey, because: origin(of: arrival.link), &turn)
  }

  /// Persists the pinned key of a peer once the peer is no longer a stranger, so that invented identities do not fill
  /// the disk.
  mutating func keepPin(of peer: PeerID, _ turn: inout Turn) {
    guard let key = neighbourhood.duePin(of: peer),
      neighbourhood.peers.precious.contains(peer) || gate.takePin(at: turn.now)
    else { return }
    neighbourhood.keptPin(of: peer)
    turn.actions.append(.keep(.pin(peer, key, isProven: neighbourhood.peers.isProven(peer))))
  }

  /// Binds a link to the peer that announces itself directly over it.
  mutating func bind(_ link: LinkID, to peer: PeerID, _ turn: inout Turn) {
    switch neighbourhood.bind(link, to: peer, at: turn.now) {
    case .unchanged: return
    case .refused:
      counters.refusedBindings += 1
      return
    case .bound: break
    }
    pings.endConfirmations(on: link)
    gossip.begin(link, isSlow: linkDialects[link].syncsSlowly, at: turn.now)
    turn.actions.append(.bound(link, peer))
    // The first neighbour may make other peers reachable again.
    messages.meet(peer, isOnly: neighbours.count == 1, at: turn.now)
    if canSend { perform(messages.probe(peer, isBlocked: blocked.contains(peer)), &turn) }
    meetCourier(peer, turn)
    files.hurry(at: turn.now)
    cutSecondLink(to: peer, &turn)
  }

  /// Records a further link over which announces of a neighbour arrive, besides the neighbour's own link. Recent
  /// envelopes and first handshake messages that were sent only over the own link are repeated over the new one. The
  /// own link may belong to an attacker who replays announces.
  mutating func noteWay(of arrival: Arrival, to peer: PeerID, _ turn: inout Turn) {
    guard neighbourhood.noteWay(of: arrival, to: peer, at: turn.now) else { return }
    if !courier.isEmpty { perform(courier.handAgain(to: peer, over: arrival.link, view(turn)), &turn) }
    // A phone that receives a first handshake message twice drops the handshake that it answered first.
    if neighbourhood.peers.isEarshot(peer) { handleSession(.again(peer), &turn) }
  }

  /// Handles an announce that arrived over its first link. The device at the other end is the sender, or one that
  /// receives the sender's announces.
  mutating func claim(_ arrival: Arrival, of peer: PeerID, _ turn: inout Turn) {
    neighbourhood.observe(peer, at: turn.now)
    guard arrival.isDirect else { return noteWay(of: arrival, to: peer, &turn) }
    bind(arrival.link, to: peer, &turn)
    switch neighbourhood.claim(arrival, of: peer) {
    case .otherPeer: noteWay(of: arrival, to: peer, &turn)
    case .known: break
    case .new(let isOurs): if !isOurs { cutSecondLink(to: peer, &turn) }
    }
  }

  /// Cuts the second links to a peer that this node should not have made: `Neighbourhood.secondLinks`.
  private mutating func cutSecondLink(to peer: PeerID, _ turn: inout Turn) {
    for link in neighbourhood.secondLinks(to: peer, at: turn.now) { cut(link, .second, &turn) }
  }

  /// Reports a neighbour whose clock differs from this node's by more than the mesh allows.
  mutating func reportClock(of arrival: Arrival, _ nickname: String, _ turn: inout Turn) {
    guard arrival.isDirect, canSend else { return }
    let (theirs, ours) = (Int64(clamping: arrival.view.timestamp), Int64(clamping: turn.time))
    turn.actions.append(
      .trouble(arrival.view.sender, nickname: nickname, .clock(seconds: (theirs &- ours) / 1000)))
  }

  /// Compares the clock of a neighbour whose announce arrived directly.
  mutating func noteClock(of arrival: Arrival, _ turn: Turn) {
    guard arrival.isDirect else { return }
    gate.noteClock(
      of: arrival, announcedAt: neighbourhood.peers[arrival.view.sender]?.announcedAt ?? 0,
      from: origin(of: arrival.link),
      at: turn.time)
  }
}

/// Fast path for announces with the payload of the sender's latest one. They are most of the traffic in a crowd, and
/// only timestamp and signature are new: nothing is decoded, and no key is hashed.
extension MeshEngine {
  /// Handles an announce whose payload equals that of its sender's latest one.
  ///
  /// - Returns: false if the announce needs complete handling.
  mutating func refresh(_ arrival: Arrival, _ key: WireKey, goesOn: Bool, _ turn: inout Turn) -> Bool {
    let view = arrival.view
    guard gossip.archive.isRepeated(by: view), let signingKey = neighbourhood.peers.signingKey(of: view.sender),
      let signature = view.signature
    else { return false }
    switch gate.checkRepeated(view, signature, by: signingKey, on: arrival.link, at: turn.now) {
    case .valid: break
    case .needsDecoding: return false
    case .dropped(let refusal):
      counters[keyPath: refusal] += 1
      return true
    }
    noteClock(of: arrival, turn)
    guard !isRefused(PacketGate.untimely(announce: view.timestamp, arrival, at: turn.time)) else {
      reportClock(of: arrival, neighbourhood.peers[view.sender]?.nickname ?? "", &turn)
      return true
    }
    let id = PacketID(plain: view)
    guard let isBurst = learn(again: arrival, id, &turn) else { return false }
    gate.remember(key, .announce, at: turn.now)
    if goesOn, !isBurst {
      relay(arrival, key, isOfKnown: true, &turn)
    } else {
      gate.end(key, .announce)
    }
    return true
  }

  /// Handles a verified announce with the payload of the peer's latest one.
  ///
  /// - Returns: whether a similar announce was relayed shortly before; nil if the peer is no longer known.
  private mutating func learn(again arrival: Arrival, _ id: PacketID, _ turn: inout Turn) -> Bool? {
    let view = arrival.view
    guard let again = neighbourhood.refresh(by: arrival, at: turn.now) else { return nil }
    if again.isChanged { turn.actions.append(.peer(view.sender)) }
    keepPin(of: view.sender, &turn)
    askForKeyOfVerified(view.sender, arrival, &turn)
    claim(arrival, of: view.sender, &turn)
    if !courier.isEmpty, let peer = neighbourhood.peers[view.sender] {
      perform(courier.handlePeer(peer, arrival, self.view(turn)), &turn)
    }
    let item = GossipArchive.Item(
      bytes: view.bytes, id: id, type: .announce, sender: view.sender, timestamp: view.timestamp)
    _ = gossip.store(item)
    return again.isBurst
  }

  // MARK: Peers

  /// Peers with a link to this node.
  public var neighbours: Set<PeerID> { neighbourhood.neighbours }

  /// Device at the other end of a link.
  func origin(of link: LinkID) -> DeviceOrigin { neighbourhood.origin(of: link) }

  /// Whether this node has a link with a peer.
  public func isNeighbour(_ peer: PeerID) -> Bool { neighbourhood.isNeighbour(peer) }

  /// All peers that the node knows now, sorted by ID.
  public var peers: [Peer] { neighbourhood.peers.peers.values.sorted { $0.id < $1.id } }

  public func peer(_ id: PeerID) -> Peer? { neighbourhood.peers[id] }

  /// Time of the last packet of a peer, also of one that has left; nil if unknown.
  public func heardAt(of id: PeerID) -> Instant? { neighbourhood.peers.heardAt(of: id) }

  /// Pairs of linked peers, this node included, sorted, each with the smaller ID first. A link counts if both ends
  /// announce it, or if it is this node's own.
  public func pairs(at now: Instant) -> [(PeerID, PeerID)] {
    let topology = Topology(own: identity.id, neighbours: neighbours, peers: neighbourhood.peers.peers.values, at: now)
    let said = topology.edges.flatMap { peer, others in others.filter { peer < $0 }.map { (peer, $0) } }
    let own = neighbours.map { (min($0, identity.id), max($0, identity.id)) }
    let unsaid = own.filter { pair in !said.contains { $0 == pair } }
    return (said + unsaid).sorted { $0 < $1 }
  }
}
