import BitchatWire
import Common

extension MeshEngine {
  /// Settings and facts that decide whether a packet is relayed.
  var relayRules: RelayQueue.Rules {
    RelayQueue.Rules(
      policy: configuration.relayPolicy, encryptedLimit: configuration.encryptedRelayLimit,
      degree: neighbourhood.links.count)
  }

  /// Queues a packet of another node for relaying after a delay.
  ///
  /// - Parameter isOfKnown: whether the packet is an announce of a peer that was known before.
  mutating func relay(_ arrival: Arrival, _ key: WireKey, isOfKnown: Bool = false, _ turn: inout Turn) {
    let view = arrival.view
    guard
      var decision = relayRules.decide(
        arrival, isOfKnown: isOfKnown, own: identity.id, isAccepted: linkDialects.accepts(view.dialect))
    else { return }
    if view.type.mayBePublicMessage, view.recipient == nil,
      !gate.mayPassOn(lineOf: view.sender, over: origin(of: arrival.link), at: turn.now)
    {
      counters.publicMessagesNotRelayed += 1
      gate.end(key, view.type)
      return
    }
    // Two copies cancel the relay of a known announce. A single link that returns each announce could otherwise cancel
    // all relays.
    if isOfKnown, configuration.relayPolicy == .mains, neighbourhood.peers.isHeldBack(view.sender) {
      decision.copiesEnough = max(decision.copiesEnough, RelayPolicy.copiesOfNews)
    }
    perform(
      pending.add(
        arrival, key, decision, from: neighbourhood.links[arrival.link]?.peer, own: identity.id, at: turn.now,
        randomFrom: &random),
      &turn)
  }

  /// Handles a copy of a packet. It may make the relay of the packet superfluous, or extend its reach.
  ///
  /// - Parameter id: ID of the packet, if known.
  mutating func relay(copy arrival: Arrival, _ key: WireKey, id: PacketID? = nil, _ turn: inout Turn) {
    let view = arrival.view
    let decision =
      configuration.relayPolicy == .mains && !arrival.isAnswer && !arrival.isReassembled
      ? relayRules.decide(view) : nil
    switch pending.handleCopy(arrival, key, from: neighbourhood.links[arrival.link]?.peer, decision) {
    case .superfluous:
      counters.superfluous += 1
      if view.type == .announce { neighbourhood.holdBack(view.sender) }
    case .waits(let timeToLive): gate.note(reach: timeToLive, of: key, view.type)
    case .unknown: if let decision { revive(arrival, key, id, decision, &turn) }
    }
  }

  /// Relays a packet late or again, because a copy has a higher TTL than the packet that this node relayed. The
  /// signature is checked again, because copies are recognised without it.
  private mutating func revive(
    _ arrival: Arrival, _ key: WireKey, _ id: PacketID?, _ decision: RelayDecision, _ turn: inout Turn
  ) {
    let view = arrival.view
    guard gate.isWorthwhile(decision.timeToLive, key, view.type) else { return }
    if let id, !mayRevive(id, view, decision.timeToLive) { return }
    // A newer announce of the same peer replaces this one.
    guard view.type != .announce || view.timestamp >= neighbourhood.peers.newest(of: view.sender) else { return }
    if view.isVerified(by: identity.id) {
      guard case .packet(let packet) = gate.decode(view, on: arrival.link, at: turn.now),
        let signingKey = neighbourhood.peers.pin(of: view.sender)
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

  /// Whether a copy with this TTL reaches far enough beyond the TTL with which the packet was relayed.
  private func mayRevive(_ id: PacketID, _ view: PacketView, _ timeToLive: UInt8) -> Bool {
    guard gossip.archive.isLastAnnounce(id, of: view.sender) else { return gate.isWorthwhile(timeToLive, id) }
    return PacketGate.isWorthwhile(
      timeToLive, beyond: gossip.archive.announce(of: view.sender).map { $0.timeToLive - min($0.timeToLive, 1) })
  }

  mutating func relayWhatIsDue(_ turn: inout Turn) {
    guard let due = pending.deadline, due <= turn.now else { return }
    perform(pending.sendDue(view(turn), hash), &turn)
  }
}
