import Common

extension MeshEngine {
  /// Has a packet of somebody else passed on, a little later.
  ///
  /// - Parameter isOfKnown: whether it is an announce of a peer that was known before.
  mutating func relay(_ arrival: Arrival, _ key: WireKey, isOfKnown: Bool = false, _ turn: inout Turn) {
    let view = arrival.view
    // What was said in private to this node, or was asked for, ends here.
    guard view.recipient != identity.id, !arrival.isReassembled, !arrival.isAnswer else { return }
    let isOfSeed = view.isOfSeed
    // Nobody passes dialect S on to peers that do not speak it, nor a hello to anybody.
    guard isOfSeed ? !seedLinks.isEmpty : view.mayPassOn else { return }
    let type = isOfSeed ? view.type.inLive : view.type
    // A file brings them by the thousand, and who comes meanwhile asks for what is missing.
    guard type != .fragment || links.count > 1 else { return }
    guard var decision = decide(view, isOfKnown: isOfKnown) else { return }
    if view.type == .message || view.type == SeedNumbers.seed.message, view.recipient == nil,
      !lines.mayPassOn(from: view.sender, over: origin(of: arrival.link), at: turn.now)
    {
      counters.linesNotPassedOn += 1
      seen.note(reach: SeenPackets.ended, of: key, view.type)
      return
    }
    // Two copies cancel the relay of a known announce. One link that returns each announce could otherwise cancel every one.
    if isOfKnown, configuration.relayPolicy == .mains, table.isHeldBack(view.sender) {
      decision.copiesEnough = max(decision.copiesEnough, RelayPolicy.copiesOfNews)
    }
    let delay = Duration.milliseconds(Random.number(decision.delay, &random))
    let dropped = pending.add(
      RelayQueue.Relay(
        received: view.bytes, key: key, type: type, sender: view.sender, recipient: view.recipient,
        nextHop: nextHop(of: view), first: copy(arrival), decision: decision, due: turn.now.advanced(by: delay),
        isOfSeed: isOfSeed))
    counters.relaysDropped += UInt64(dropped)
    seen.note(reach: decision.timeToLive, of: key, view.type)
  }

  private func copy(_ arrival: Arrival) -> RelayQueue.Copy {
    RelayQueue.Copy(link: arrival.link, peer: links[arrival.link]?.peer, timeToLive: arrival.view.timeToLive)
  }

  func decide(_ view: PacketView, isOfKnown: Bool = false) -> RelayDecision? {
    let subject = RelaySubject(
      type: view.isOfSeed ? view.type.inLive : view.type, timeToLive: view.timeToLive,
      isDirected: view.recipient != nil, isOfKnown: isOfKnown)
    return configuration.relayPolicy.decide(
      subject, degree: links.count, encryptedLimit: configuration.encryptedRelayLimit)
  }

  /// A copy of a packet came: it may make passing the packet on superfluous, or have it go further. The apps stay with the copy that
  /// came first.
  ///
  /// - Parameter id: the ID of the packet, if it is known already.
  mutating func relay(copy arrival: Arrival, _ key: WireKey, id: PacketID? = nil, _ turn: inout Turn) {
    let view = arrival.view
    let decision =
      configuration.relayPolicy == .mains && !arrival.isAnswer && !arrival.isReassembled ? decide(view) : nil
    switch pending.hear(copy(arrival), of: key, timeToLive: decision?.timeToLive) {
    case .superfluous:
      counters.superfluous += 1
      if view.type == .announce { table.holdBack(view.sender) }
    case .waits(let timeToLive): seen.note(reach: timeToLive, of: key, view.type)
    case .unknown: if let decision { revive(arrival, key, id, decision, &turn) }
    }
  }

  /// Relays a packet late, or once more, because a copy reaches further than this node relayed it. The signature is
  /// checked again, because a copy is recognised without it.
  private mutating func revive(
    _ arrival: Arrival, _ key: WireKey, _ id: PacketID?, _ decision: RelayDecision, _ turn: inout Turn
  ) {
    let view = arrival.view
    guard seen.isWorthwhile(decision.timeToLive, key, view.type) else { return }
    if let id, !mayRevive(id, view, decision.timeToLive) { return }
    // A newer announce of the same peer replaces this one.
    guard view.type != .announce || view.timestamp >= table.newest(of: view.sender) else { return }
    if view.type.isVerifiedHere, isRead(view) {
      guard budget.takeInflation(of: view.inflatedCount, on: arrival.link, at: turn.now),
        let packet = try? Packet(view), let signingKey = table.pin(of: view.sender)
      else { return }
      let id = id ?? PacketID(packet)
      guard mayRevive(id, view, decision.timeToLive),
        checkSignature(arrival, packet, signingKey, isKnownAnnounce: view.type == .announce, turn)
      else { return }
      seen.note(reach: decision.timeToLive, of: id)
      if view.type == .announce { keep(arrival, packet, id, &turn) }
    }
    counters.revived += 1
    turn.isIdle = false
    relay(arrival, key, isOfKnown: true, &turn)
  }

  /// Whether a packet, recognised by its ID, was not yet relayed as far as this.
  private func mayRevive(_ id: PacketID, _ view: PacketView, _ timeToLive: UInt8) -> Bool {
    guard archive.isLastAnnounce(id, of: view.sender) else { return seen.isWorthwhile(timeToLive, id) }
    return SeenPackets.isWorthwhile(
      timeToLive, archive.announce(of: view.sender).map { $0.timeToLive - min($0.timeToLive, 1) })
  }

  /// The hop behind this node on the packet's route, or the recipient behind the last one.
  private func nextHop(of view: PacketView) -> PeerID? {
    guard let place = view.route.firstIndex(of: identity.id) else { return nil }
    return view.route[(place + 1)...].first ?? view.recipient
  }

  mutating func relayWhatIsDue(_ turn: inout Turn) {
    guard let due = pending.deadline, due <= turn.now else { return }
    for relay in pending.takeDue(at: turn.now) {
      var targets = targets(but: relay.heardOn)
      if relay.isOfSeed { targets = targets.filter { isSeed($0) } }
      if let hop = [relay.recipient, relay.nextHop].compactMap(\.self).first(where: { ownLink(of: $0) != nil }),
        relay.type == .fragment || !isDoubtful(hop)
      {
        // A packet for a neighbour, or one whose next hop it is, goes over its own links and those that its announces arrive over. Fragments
        // go over its own links alone if it names this node as its neighbour.
        let isSure = relay.type == .fragment && table[hop]?.names(identity.id) == true
        let others = isSure ? [] : ways.others(to: hop, besides: links(to: hop), at: turn.now).map(\.link)
        targets = targets.filter { links[$0]?.peer == hop || others.contains($0) }
      } else if relay.decision.isForSome {
        targets = some(of: targets, for: relay)
      }
      guard !targets.isEmpty else { continue }
      counters.relayed += 1
      if relay.type == .announce { table.sentOn(relay.sender) }
      if relay.type == .fragment, relay.heardOn.contains(where: { isFast($0) }) {
        for link in targets where !isFast(link) { hold(relay, for: link, turn) }
        targets = targets.filter { isFast($0) }
        guard !targets.isEmpty else { continue }
      }
      // The bytes are passed on as they came: where a link is too narrow for them, in fragments. A fragment that is too long for a
      // link does not go there.
      transmit(relay.bytes, as: relay.packetClass, to: targets, &turn)
    }
  }

  /// Has a phone get a fragment that came faster than a phone can follow. One for which there is no room to wait is dropped:
  /// who misses it asks for it.
  private mutating func hold(_ relay: RelayQueue.Relay, for link: LinkID, _ turn: Turn) {
    guard relay.received.count <= narrowest([link]) else {
      counters.unsendable += 1
      return
    }
    let lane = PacedPackets.Lane.passedOn(from: relay.link)
    counters.relaysDropped += UInt64(paced.add([relay.bytes], on: link, as: .fragment, in: lane, at: turn.now) ?? 1)
  }

  /// The part of the links that the iOS app would choose: always the same ones for one packet.
  private func some(of targets: [LinkID], for relay: RelayQueue.Relay) -> [LinkID] {
    let ranked = targets.map { link in
      (link, withUnsafeBytes(of: (relay.key.hash.low, link.number)) { hash.hash($0) }.low)
    }
    return ranked.sorted { $0.1 < $1.1 }.prefix(RelayPolicy.someLinks(of: targets.count)).map(\.0)
      .sorted { $0.number < $1.number }
  }
}

extension RelayQueue.Relay {
  fileprivate var packetClass: PacketClass {
    switch type {
    case .announce: .announce
    case .fragment: .fragment
    case _ where recipient != nil: .directed
    default: .publicChat
    }
  }
}
