import Common
import Crypto

extension MeshEngine {
  /// Range of the announce interval, in milliseconds, with few and with many links. Facts: bitchat.md section 1.
  private static let announcePeriod: ClosedRange<Int64> = 11_000...19_000
  private static let densePeriod: ClosedRange<Int64> = 22_000...38_000
  /// Range with more than `crowd` known peers, in milliseconds. The iOS app forgets peers that are silent for 45 s.
  private static let crowdedPeriod: ClosedRange<Int64> = 32_000...44_000
  private static let crowd = 256
  /// Range on battery power, in milliseconds.
  private static let sparingPeriod: ClosedRange<Int64> = 57_000...63_000
  /// Range while no neighbour has announced itself, in milliseconds.
  private static let isolatedPeriod: ClosedRange<Int64> = 3_500...4_500
  /// Minimum interval between announces to all links.
  private static let shortestPause = Duration.seconds(1)

  mutating func announceIfDue(_ turn: inout Turn) {
    guard let due = announceAt, due <= turn.now else { return }
    if let announcedAt, announcedAt.duration(to: turn.now) < Self.shortestPause {
      announceAt = announcedAt.advanced(by: Self.shortestPause)
      return
    }
    let isIsolated = !links.isEmpty && neighbours.isEmpty
    let period =
      isIsolated
      ? Self.isolatedPeriod
      : table.count > Self.crowd
        ? Self.crowdedPeriod : links.count >= RelayPolicy.dense ? Self.densePeriod : Self.announcePeriod
    announceAt = turn.now.advanced(
      by: .milliseconds(Random.number(configuration.isSparing && !isIsolated ? Self.sparingPeriod : period, &random)))
    guard canSend, !links.isEmpty, let packet = announcement(turn) else { return }
    announcedAt = turn.now
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
      speaksSeed: configuration.speaksSeed, isEarshot: true, longestWrite: configuration.longestWrite,
      courierPlaces: courier.saidPlaces)
    guard let announcement else { return nil }
    return Packet(type: .announce, timestamp: timestamp(turn), sender: identity.id, payload: announcement.bytes)
  }

  // MARK: Announces of other peers

  /// Result of handling an announce.
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
    let pinned = table.pin(of: packet.sender)
    let isOther = pinned.map { $0 != announcement.signingKey } ?? false
    if isOther {
      counters.otherSigningKeys += 1
      guard !table.isProven(packet.sender) else { return .refused }
    }
    // A peer that was evicted from the table but has a pin is not a new identity.
    let isKnown = !isOther && (table.has(packet.sender) || pinned != nil)
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
      return table.pin(of: packet.sender) == announcement.signingKey ? .refused : .contested
    }
    learn(announcement, packet, arrival, &turn)
    return .taken
  }

  private mutating func learn(
    _ announcement: Announcement, _ packet: Packet, _ arrival: Arrival, _ turn: inout Turn
  ) {
    let peer = packet.sender
    let spokeSeed = table[peer]?.speaksSeed == true
    // A neighbour's sync answer does not show the number of hops.
    let hops = arrival.isAnswer ? max(2, table[peer]?.hops ?? 2) : arrival.hops
    guard let news = try? table.learn(announcement, at: packet.timestamp, hops: hops, now: turn.now) else {
      counters.oldAnnounces += 1
      // The announce is not new, but it still shows a link to the peer: a newer announce overtook it on another link.
      claim(arrival, of: peer, &turn)
      return
    }
    if spokeSeed, !announcement.speaksSeed { talks.end(with: peer) }
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
    if !courier.isEmpty, let known = table[peer] { perform(courier.handlePeer(known, arrival, view(turn)), &turn) }
    for chat in gate.takeWaiting(of: peer) {
      accept(chat.view, on: chat.link, isReassembled: chat.isReassembled, &turn)
    }
  }

  /// Asks a peer for its signing key if a user has verified its fingerprint while it was out of reach.
  mutating func askForKeyOfVerified(_ peer: PeerID, _ arrival: Arrival, _ turn: inout Turn) {
    guard verified.contains(peer), !table.isProven(peer), !challenges.isAwaited(peer), let known = table[peer] else {
      return
    }
    askForKey(of: peer, known.noiseKey, because: origin(of: arrival.link), &turn)
  }

  /// Persists the pinned key of a peer once the peer is no longer a stranger, so that invented identities do not fill
  /// the disk.
  mutating func keepPin(of peer: PeerID, _ turn: inout Turn) {
    guard table.isPinDue(peer), let key = table.pin(of: peer),
      table.precious.contains(peer) || gate.takePin(at: turn.now)
    else { return }
    table.keptPin(of: peer)
    turn.actions.append(.keep(.pin(peer, key, isProven: table.isProven(peer))))
  }

  /// Binds a link to the peer that announces itself directly over it. A link changes its peer at most once per
  /// `MeshLink.rebindTime`, except back to a peer that has left.
  mutating func bind(_ link: LinkID, to peer: PeerID, _ turn: inout Turn) {
    guard var state = links[link], state.peer != peer else { return }
    if let boundAt = state.boundAt, boundAt.duration(to: turn.now) < MeshLink.rebindTime, state.formerPeer != peer {
      counters.refusedBindings += 1
      return
    }
    (state.peer, state.formerPeer) = (peer, nil)
    state.boundAt = turn.now
    state.broughtAt = 0
    let (before, isNew) = (links[link]?.peer, !isNeighbour(peer))
    links[link] = state
    pings.endConfirmations(on: link)
    noteNeighbour(peer, on: link, isNew: isNew, turn)
    if let before, !isNeighbour(before) { ways.forgetWays(to: before) }
    gossip.begin(link, isSlow: isSeed(link), at: turn.now)
    turn.actions.append(.bound(link, peer))
    // The first neighbour may make other peers reachable again.
    messages.meet(peer, isOnly: neighbours.count == 1, at: turn.now)
    if canSend { perform(messages.probe(peer, isBlocked: blocked.contains(peer)), &turn) }
    meetCourier(peer, turn)
    files.hurry(at: turn.now)
    cutSecondLink(to: peer, &turn)
  }

  /// Records that a link now counts as the peer's own.
  private mutating func noteNeighbour(_ peer: PeerID, on link: LinkID, isNew: Bool, _ turn: Turn) {
    guard let known = table[peer] else { return }
    ways.observe(peer, isNamed: known.names(identity.id) != false, at: turn.now)
    // Announces of the peer arrived over other links before; which ones is unknown.
    guard isNew, known.farHops > 1 else { return }
    for other in links.keys where other != link {
      ways.note(peer, over: other, hops: Int(known.farHops), at: turn.now)
    }
  }

  /// Records a link over which announces of a neighbour arrive, although it has a link of its own. Recent envelopes and
  /// first handshake messages, sent over the own link alone, are repeated over the new one. The own link may belong to
  /// an attacker who replays announces.
  mutating func noteWay(of arrival: Arrival, to peer: PeerID, _ turn: inout Turn) {
    guard !arrival.isAnswer, !arrival.isReassembled else { return }
    if arrival.hops > 1 { table.noteFar(peer, hops: arrival.hops) }
    guard links[arrival.link]?.peer != peer, isNeighbour(peer) else { return }
    guard ways.note(peer, over: arrival.link, hops: arrival.hops, at: turn.now) else { return }
    if !courier.isEmpty { perform(courier.handAgain(to: peer, over: arrival.link, view(turn)), &turn) }
    // A phone that receives a first handshake message twice drops the handshake that it answered first.
    if table.isEarshot(peer) { handleSession(.again(peer), &turn) }
  }

  /// Handles an announce that arrived over its first link. The device at the other end is the sender, or one that
  /// receives the sender's announces.
  mutating func claim(_ arrival: Arrival, of peer: PeerID, _ turn: inout Turn) {
    if let known = table[peer], isNeighbour(peer) {
      ways.observe(peer, isNamed: known.names(identity.id) != false, at: turn.now)
    }
    guard arrival.isDirect else { return noteWay(of: arrival, to: peer, &turn) }
    bind(arrival.link, to: peer, &turn)
    guard let state = links[arrival.link], state.peer == peer else { return noteWay(of: arrival, to: peer, &turn) }
    guard arrival.view.timestamp > state.broughtAt else { return }
    links[arrival.link]?.broughtAt = arrival.view.timestamp
    if !state.isOurs { cutSecondLink(to: peer, &turn) }
  }

  /// Cuts one of two links between two nodes. The link made by the node with the smaller ID stays; the maker of the
  /// other link cuts it. Phones do not know this rule, so a link made by a phone is never cut.
  ///
  /// Both links to an Earshot peer must come from one device, because an attacker's link may count as the peer's own. A
  /// phone may have two addresses.
  private mutating func cutSecondLink(to peer: PeerID, _ turn: inout Turn) {
    guard peer < identity.id else { return }
    let toPeer = links.filter { $0.value.peer == peer }
    let isPhone = !table.isEarshot(peer)
    for (link, state) in toPeer where state.isOurs {
      // A link that has only repeated announces may be an attacker's.
      let hasOther = toPeer.contains {
        !$0.value.isOurs && $0.value.broughtAt > 0 && (isPhone || $0.value.origin == state.origin)
      }
      // An announce that the peer sent over another link alone may be replayed by an attacker's link. Such a link does
      // not replace an established one.
      let isNew = state.boundAt.map { $0.duration(to: turn.now) < MeshLink.announceTime } ?? true
      if hasOther, isNew { cut(link, .second, &turn) }
    }
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
      of: arrival, announcedAt: table[arrival.view.sender]?.announcedAt ?? 0, from: origin(of: arrival.link),
      at: turn.time)
  }
}
