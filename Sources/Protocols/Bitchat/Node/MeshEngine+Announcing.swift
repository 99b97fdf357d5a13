import Common
import Crypto

extension MeshEngine {
  /// From one announce to the next, give or take some seconds: with few links and with many. Facts: bitchat.md section 1.
  private static let announcePeriod: ClosedRange<Int64> = 11_000...19_000
  private static let densePeriod: ClosedRange<Int64> = 22_000...38_000
  /// The same where so many peers are known. The iOS app forgets who says nothing for 45 s.
  private static let crowdedPeriod: ClosedRange<Int64> = 32_000...44_000
  private static let crowd = 256
  /// The same on a battery.
  private static let sparingPeriod: ClosedRange<Int64> = 57_000...63_000
  /// The same while no neighbour has said who it is.
  private static let isolatedPeriod: ClosedRange<Int64> = 3_500...4_500
  /// Two announces to all are never nearer than that.
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

  /// Tells one link who is here.
  mutating func announce(on link: LinkID, _ turn: inout Turn) {
    guard canSend, let packet = announcement(turn) else { return }
    transmit(packet, as: .announce, to: [link], &turn)
  }

  private mutating func announcement(_ turn: Turn) -> Packet? {
    let near = neighbours.sorted().prefix(Limits.neighbours)
    let announcement = try? Announcement(
      nickname: configuration.nickname, noiseKey: identity.noiseKey.publicKey,
      signingKey: identity.signingKey.publicKey,
      neighbours: configuration.isRelayOnly || near.isEmpty ? nil : Array(near),
      capabilities: configuration.isRelayOnly || Capabilities.own.isEmpty ? nil : .own,
      speaksSeed: configuration.speaksSeed, isEarshot: true, longestWrite: configuration.longestWrite,
      courierPlaces: courier.saidPlaces)
    guard let announcement else { return nil }
    return Packet(type: .announce, timestamp: timestamp(turn), sender: identity.id, payload: announcement.bytes)
  }

  // MARK: From others

  /// The result of an announce.
  enum Heard {
    /// The signing key is the pinned one, or the first.
    case taken
    /// The signing key is not the pinned one, but the pinned one is not proven.
    case contested
    case refused
  }

  /// Takes in an announce. It is the one packet that brings its own key.
  mutating func hear(announce packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Heard {
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
    // One that was pushed out of the table, and has a pin, is no new identity.
    let isKnown = !isOther && (table.has(packet.sender) || pinned != nil)
    guard isKnown || budget.takeIdentity(on: arrival.link, at: turn.now) else {
      counters.tooManyIdentities += 1
      return .refused
    }
    guard checkSignature(arrival, packet, announcement.signingKey, isKnownAnnounce: isKnown, turn) else {
      return .refused
    }
    if !isOther { noteClock(of: arrival, turn) }
    guard isTimely(packet.timestamp, arrival, turn) else {
      reportClock(of: arrival, announcement.nickname, &turn)
      return .refused
    }
    guard !isOther else {
      contest(announcement, arrival, &turn)
      // A peer with a session may have proven the key already.
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
    // What a neighbour tells later has lost the count of its hops.
    let hops = arrival.isAnswer ? max(2, table[peer]?.hops ?? 2) : arrival.hops
    guard let news = try? table.learn(announcement, at: packet.timestamp, hops: hops, now: turn.now) else {
      counters.oldAnnounces += 1
      // It brings nothing new, and still shows whose link it came over: a newer one overtook it on another link.
      claim(arrival, of: peer, &turn)
      return
    }
    if spokeSeed, !announcement.speaksSeed { talks.end(with: peer) }
    keepPin(of: peer, &turn)
    for other in news.forgotten {
      archive.leave(other)
      turn.actions.append(.gone(other))
    }
    if news.novelty != .same { turn.actions.append(.peer(peer)) }
    claim(arrival, of: peer, &turn)
    if news.novelty == .newPeer {
      outbox.hurry(peer, at: turn.now)
      owed.hurry(peer, at: turn.now)
      hurryFiles(to: peer, &turn)
    }
    askForKeyOfVerified(peer, arrival, &turn)
    if let known = table[peer] { deliverMail(to: known, arrival, &turn) }
    for chat in unknown.take(of: peer) { accept(chat.view, on: chat.link, isReassembled: chat.isReassembled, &turn) }
  }

  /// Asks a peer for its signing key if a user has compared its fingerprint while it was out of reach.
  mutating func askForKeyOfVerified(_ peer: PeerID, _ arrival: Arrival, _ turn: inout Turn) {
    guard verified.contains(peer), !table.isProven(peer), !proofs.isAwaited(peer), let known = table[peer] else {
      return
    }
    askForKey(of: peer, known.noiseKey, because: origin(of: arrival.link), &turn)
  }

  /// Has a peer be held to its key in the next run as well, once it is no stranger any more: identities that somebody makes up
  /// fill no disk.
  mutating func keepPin(of peer: PeerID, _ turn: inout Turn) {
    guard table.isPinDue(peer), let key = table.pin(of: peer),
      table.precious.contains(peer) || budget.takePin(at: turn.now)
    else { return }
    table.keptPin(of: peer)
    turn.actions.append(.keep(.pin(peer, key, isProven: table.isProven(peer))))
  }

  /// A link belongs to the peer that announces itself over it and nobody in between. It changes its peer once a minute at most, but
  /// for one that has left and comes back.
  mutating func bind(_ link: LinkID, to peer: PeerID, _ turn: inout Turn) {
    guard var state = links[link], state.peer != peer else { return }
    if let boundAt = state.boundAt, boundAt.duration(to: turn.now) < MeshLink.rebindTime, state.formerPeer != peer {
      counters.refusedBindings += 1
      return
    }
    (state.peer, state.formerPeer) = (peer, nil)
    state.boundAt = turn.now
    state.broughtAt = 0
    state.confirmationInterval = 0
    let (before, isNew) = (links[link]?.peer, !isNeighbour(peer))
    links[link] = state
    noteNeighbour(peer, on: link, isNew: isNew, turn)
    if let before, !isNeighbour(before) { ways.forgetWays(to: before) }
    sync.end(link)
    sync.begin(link, isSlow: isSeed(link), at: turn.now)
    turn.actions.append(.bound(link, peer))
    // Through the first neighbour others may be within reach again.
    for waiting in neighbours.count == 1 ? outbox.peers : [peer] { outbox.hurry(waiting, at: turn.now) }
    owed.hurry(peer, at: turn.now)
    probeSession(with: peer, &turn)
    meetCourier(peer, turn)
    hurryFiles(&turn)
    cutSecondLink(to: peer, &turn)
  }

  /// Notes that a link counts as the peer's own from now on.
  private mutating func noteNeighbour(_ peer: PeerID, on link: LinkID, isNew: Bool, _ turn: Turn) {
    guard let known = table[peer] else { return }
    ways.observe(peer, isNamed: known.names(identity.id) != false, at: turn.now)
    // Its announces arrived over other links before. Which ones is unknown.
    guard isNew, known.farHops > 1 else { return }
    for other in links.keys where other != link {
      ways.note(peer, over: other, hops: Int(known.farHops), at: turn.now)
    }
  }

  /// Notes a link over which an announce arrived whose peer has a link of its own. Envelopes and first messages that were just sent over the
  /// peer's own link alone are sent over a new such link, too: the own link may be an attacker's who repeats announces.
  mutating func noteWay(of arrival: Arrival, to peer: PeerID, _ turn: inout Turn) {
    guard !arrival.isAnswer, !arrival.isReassembled else { return }
    if arrival.hops > 1 { table.noteFar(peer, hops: arrival.hops) }
    guard links[arrival.link]?.peer != peer, isNeighbour(peer) else { return }
    guard ways.note(peer, over: arrival.link, hops: arrival.hops, at: turn.now) else { return }
    handAgain(to: peer, over: arrival.link, &turn)
    // A phone that receives a first message twice drops the handshake that it answered first.
    if table.isEarshot(peer) { carryOut(sessions.handle(.again(peer), at: turn.now), &turn) }
  }

  /// Notes an announce that arrived over no other link before. Its sender is its peer, or a device that receives the peer's announces.
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

  /// Cuts the second of two links between two nodes. The link that the node with the smaller ID made stays, and the node that made the other one
  /// cuts it. A phone does not know this rule, so a link that a phone made is never cut. Both links of an Earshot peer must come from one
  /// device, because an attacker's link may count as the peer's own. A phone may have two addresses.
  private mutating func cutSecondLink(to peer: PeerID, _ turn: inout Turn) {
    guard peer < identity.id else { return }
    let toPeer = links.filter { $0.value.peer == peer }
    let isPhone = !table.isEarshot(peer)
    for (link, state) in toPeer where state.isOurs {
      // A link that has only repeated announces may be an attacker's.
      let hasOther = toPeer.contains {
        !$0.value.isOurs && $0.value.broughtAt > 0 && (isPhone || $0.value.origin == state.origin)
      }
      // So may one that has brought an announce which the peer has said to another link alone: it does not outdo a link that has been
      // there.
      let isNew = state.boundAt.map { $0.duration(to: turn.now) < MeshLink.announceTime } ?? true
      if hasOther, isNew { cut(link, .second, &turn) }
    }
  }

  /// The clock of a neighbour, or this node's, is off by more than the mesh allows.
  mutating func reportClock(of arrival: Arrival, _ nickname: String, _ turn: inout Turn) {
    guard arrival.isDirect, canSend else { return }
    let (theirs, ours) = (Int64(clamping: arrival.view.timestamp), Int64(clamping: turn.time))
    turn.actions.append(
      .trouble(arrival.view.sender, nickname: nickname, .clock(seconds: (theirs &- ours) / 1000)))
  }

  /// A neighbour whose announce comes straight from it has a clock that can be compared.
  mutating func noteClock(of arrival: Arrival, _ turn: Turn) {
    let (sender, timestamp) = (arrival.view.sender, arrival.view.timestamp)
    // An old announce that somebody says again shows nothing.
    guard arrival.isDirect, timestamp >= table[sender]?.announcedAt ?? 0 else { return }
    witnesses.note(
      sender, from: origin(of: arrival.link), agrees: Self.distance(timestamp, turn.time) <= Limits.clockMilliseconds)
  }
}
