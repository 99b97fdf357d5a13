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
  /// The most neighbours that are remembered for their clocks.
  private static let witnesses = 16

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

  /// Takes in an announce. It is the one packet that brings its own key.
  ///
  /// - Returns: whether it may go on.
  mutating func hear(announce packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard let announcement = try? Announcement(reading: packet.payload), announcement.peerID == packet.sender else {
      counters.badAnnounces += 1
      return false
    }
    if let pinned = table.pin(of: packet.sender), pinned != announcement.signingKey {
      counters.otherSigningKeys += 1
      return false
    }
    // One that was pushed out of the table, and has a pin, is no new identity.
    let isKnown = table.has(packet.sender) || table.pin(of: packet.sender) != nil
    guard isKnown || budget.takeIdentity(on: arrival.link, at: turn.now) else {
      counters.tooManyIdentities += 1
      return false
    }
    guard checkSignature(arrival, packet, announcement.signingKey, isKnownAnnounce: isKnown, turn) else { return false }
    noteClock(of: arrival, turn)
    guard isTimely(packet.timestamp, arrival, turn) else { return false }
    learn(announcement, packet, arrival, &turn)
    return true
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
      hurryFiles(to: peer, &turn)
    }
    if let known = table[peer] { deliverMail(to: known, arrival, &turn) }
    for chat in unknown.take(of: peer) { accept(chat.view, on: chat.link, isReassembled: chat.isReassembled, &turn) }
  }

  /// Has a peer be held to its key in the next run as well, once it is no stranger any more: identities that somebody makes up
  /// fill no disk.
  mutating func keepPin(of peer: PeerID, _ turn: inout Turn) {
    guard table.isPinDue(peer), let key = table.pin(of: peer),
      table.precious.contains(peer) || budget.takePin(at: turn.now)
    else { return }
    table.keptPin(of: peer)
    turn.actions.append(.keep(.pin(peer, key)))
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
    links[link] = state
    sync.end(link)
    sync.begin(link, isSlow: isSeed(link), at: turn.now)
    turn.actions.append(.bound(link, peer))
    // Through the first neighbour others may be within reach again.
    for waiting in neighbours.count == 1 ? outbox.peers : [peer] { outbox.hurry(waiting, at: turn.now) }
    meetCourier(peer, turn)
    hurryFiles(&turn)
    cutSecondLink(to: peer, &turn)
  }

  /// An announce came that had come over no other link. Of the links to a peer, those are used that have brought one such: whoever
  /// catches one that was said to all, and says it again on a link of his own, is later than the peer itself, and gets nothing of what
  /// is for the peer. One that the peer has said to somebody alone can come over his link first; both links are used then.
  mutating func claim(_ arrival: Arrival, of peer: PeerID, _ turn: inout Turn) {
    guard arrival.isDirect else { return }
    bind(arrival.link, to: peer, &turn)
    guard let state = links[arrival.link], state.peer == peer else { return }
    guard arrival.view.timestamp > state.broughtAt else { return }
    links[arrival.link]?.broughtAt = arrival.view.timestamp
    if !state.isOurs { cutSecondLink(to: peer, &turn) }
  }

  /// Of two links between two nodes, the one stays that the smaller ID has made; whoever made the other one cuts it. A phone
  /// knows no such rule: nothing that it has made is cut.
  private mutating func cutSecondLink(to peer: PeerID, _ turn: inout Turn) {
    guard peer < identity.id else { return }
    let toPeer = links.filter { $0.value.peer == peer }
    // One that has only repeated announces may be anybody's.
    guard toPeer.contains(where: { !$0.value.isOurs && $0.value.broughtAt > 0 }) else { return }
    for (link, state) in toPeer where state.isOurs {
      // So may one that has brought an announce which the peer has said to another link alone: it does not outdo a link that has been
      // there.
      let isNew = state.boundAt.map { $0.duration(to: turn.now) < MeshLink.announceTime } ?? true
      if isNew { cut(link, .second, &turn) }
    }
  }

  /// A neighbour whose announce comes straight from it has a clock that can be compared.
  mutating func noteClock(of arrival: Arrival, _ turn: Turn) {
    let (sender, timestamp) = (arrival.view.sender, arrival.view.timestamp)
    // An old announce that somebody says again shows nothing.
    guard arrival.isDirect, timestamp >= table[sender]?.announcedAt ?? 0 else { return }
    if Self.distance(timestamp, turn.time) <= Limits.clockMilliseconds {
      if agreeing.count < Self.witnesses { agreeing.insert(sender) }
    } else {
      agreeing.remove(sender)
    }
  }
}
