import Common

extension MeshEngine {
  /// Queues a packet of another node for relaying after a delay.
  ///
  /// - Parameter isOfKnown: whether the packet is an announce of a peer that was known before.
  mutating func relay(_ arrival: Arrival, _ key: WireKey, isOfKnown: Bool = false, _ turn: inout Turn) {
    let view = arrival.view
    // Packets for this node, and answers to its requests, are not relayed.
    guard view.recipient != identity.id, !arrival.isReassembled, !arrival.isAnswer else { return }
    let isOfSeed = view.isOfSeed
    // Dialect S packets are relayed only to peers that speak it, and hellos are never relayed.
    guard isOfSeed ? !seedLinks.isEmpty : view.mayPassOn else { return }
    let type = isOfSeed ? view.type.inLive : view.type
    // A file has thousands of fragments. Neighbours that arrive meanwhile request the missing ones.
    guard type != .fragment || links.count > 1 else { return }
    guard var decision = decide(view, isOfKnown: isOfKnown) else { return }
    if view.type == .message || view.type == SeedNumbers.seed.message, view.recipient == nil,
      !gate.mayPassOn(lineOf: view.sender, over: origin(of: arrival.link), at: turn.now)
    {
      counters.linesNotPassedOn += 1
      gate.end(key, view.type)
      return
    }
    // Two copies cancel the relay of a known announce. A single link that returns each announce could otherwise cancel
    // all relays.
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
    gate.note(reach: decision.timeToLive, of: key, view.type)
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

  /// Handles a copy of a packet. It may make the relay of the packet superfluous, or extend its reach. The apps use the
  /// first copy only.
  ///
  /// - Parameter id: ID of the packet, if known.
  mutating func relay(copy arrival: Arrival, _ key: WireKey, id: PacketID? = nil, _ turn: inout Turn) {
    let view = arrival.view
    let decision =
      configuration.relayPolicy == .mains && !arrival.isAnswer && !arrival.isReassembled ? decide(view) : nil
    switch pending.hear(copy(arrival), of: key, timeToLive: decision?.timeToLive) {
    case .superfluous:
      counters.superfluous += 1
      if view.type == .announce { table.holdBack(view.sender) }
    case .waits(let timeToLive): gate.note(reach: timeToLive, of: key, view.type)
    case .unknown: if let decision { revive(arrival, key, id, decision, &turn) }
    }
  }

  /// Relays a packet late or again, because a copy reaches further than this node's relay did. The signature is checked
  /// again, because copies are recognised without it.
  private mutating func revive(
    _ arrival: Arrival, _ key: WireKey, _ id: PacketID?, _ decision: RelayDecision, _ turn: inout Turn
  ) {
    let view = arrival.view
    guard gate.isWorthwhile(decision.timeToLive, key, view.type) else { return }
    if let id, !mayRevive(id, view, decision.timeToLive) { return }
    // A newer announce of the same peer replaces this one.
    guard view.type != .announce || view.timestamp >= table.newest(of: view.sender) else { return }
    if view.isVerified(by: identity.id) {
      guard case .packet(let packet) = gate.decode(view, on: arrival.link, at: turn.now),
        let signingKey = table.pin(of: view.sender)
      else { return }
      let id = id ?? PacketID(packet)
      guard mayRevive(id, view, decision.timeToLive),
        checkSignature(arrival, packet, signingKey, isKnownAnnounce: view.type == .announce, turn)
      else { return }
      gate.note(reach: decision.timeToLive, of: id)
      if view.type == .announce { keep(arrival, packet, id, &turn) }
    }
    counters.revived += 1
    turn.isIdle = false
    relay(arrival, key, isOfKnown: true, &turn)
  }

  /// Whether a packet with this ID was not yet relayed with as high a TTL.
  private func mayRevive(_ id: PacketID, _ view: PacketView, _ timeToLive: UInt8) -> Bool {
    guard gossip.archive.isLastAnnounce(id, of: view.sender) else { return gate.isWorthwhile(timeToLive, id) }
    return PacketGate.isWorthwhile(
      timeToLive, beyond: gossip.archive.announce(of: view.sender).map { $0.timeToLive - min($0.timeToLive, 1) })
  }

  /// Returns the hop after this node on the packet's route; the recipient if this node is the last hop.
  private func nextHop(of view: PacketView) -> PeerID? {
    guard let place = view.route.firstIndex(of: identity.id) else { return nil }
    return view.route[(place + 1)...].first ?? view.recipient
  }

  mutating func relayWhatIsDue(_ turn: inout Turn) {
    guard let due = pending.deadline, due <= turn.now else { return }
    for relay in pending.takeDue(at: turn.now) {
      var targets = targets(but: relay.heardOn)
      if relay.isOfSeed { targets = targets.filter { isSeed($0) } }
      if let hop = [relay.recipient, relay.nextHop].compactMap(\.self).first(where: { !ownLinks(of: $0).isEmpty }),
        relay.type == .fragment || !isDoubtful(hop)
      {
        // A packet for a neighbour, or with a neighbour as next hop, is sent over its own links and those that its
        // announces arrive over. Fragments use only its own links if it names this node as its neighbour.
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
        for link in targets where !isFast(link) { hold(relay, for: link, &turn) }
        targets = targets.filter { isFast($0) }
        guard !targets.isEmpty else { continue }
      }
      // Packets are relayed unchanged, in fragments where a link is too narrow. A fragment that is too long for a link
      // is not relayed there.
      transmit(relay.bytes, as: relay.packetClass, to: targets, &turn)
    }
  }

  /// Paces a fragment for a phone that cannot follow the speed of arrival. If the queue is full, the fragment is
  /// dropped; the phone requests it.
  private mutating func hold(_ relay: RelayQueue.Relay, for link: LinkID, _ turn: inout Turn) {
    guard relay.received.count <= links.frameLimit(of: link) else {
      counters.unsendable += 1
      return
    }
    perform([transmitter.pace(relay.bytes, as: .fragment, on: link, from: relay.link, at: turn.now)], &turn)
  }

  /// Selects a subset of the links, as many as the iOS app would. The choice is constant for one packet.
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
