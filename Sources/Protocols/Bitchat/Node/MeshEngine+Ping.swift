import Common

/// Measures hops and round-trip time to a peer. Facts: bitchat.md section 3.
extension MeshEngine {
  /// Sends a ping to a peer. `Action.pong` or `Action.pingLost` follows within 10 s.
  ///
  /// - Parameter number: unique number of the ping, chosen by the caller.
  public mutating func ping(
    _ peer: PeerID, as number: UInt32, at now: Instant, time: UInt64
  ) throws(PingError) -> [Action] {
    isDueKnown = false
    var turn = Turn(now: now, time: time)
    perform(try pings.begin(number, to: peer, view(turn), randomFrom: &random), &turn)
    return turn.actions
  }

  /// - Parameter link: nil for the links to the peer, or all links if it is not a neighbour.
  mutating func send(
    _ payload: PingPayload, as type: MessageType, in kind: PacketClass = .own, to peer: PeerID,
    over link: LinkID? = nil, _ turn: inout Turn
  ) {
    let packet = Packet(
      type: type, timestamp: timestamp(turn), sender: identity.id, recipient: peer, payload: payload.bytes)
    var known = link.map { [$0] } ?? links(to: peer)
    if link == nil { known += ways.others(to: peer, besides: known, at: turn.now).map(\.link) }
    let isEverywhere = known.isEmpty || link == nil && isDoubtful(peer)
    transmit(packet, as: kind, to: isEverywhere ? targets() : known, &turn)
  }

  mutating func handlePing(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard let payload = try? PingPayload(reading: packet.payload) else {
      counters.unreadable += 1
      return
    }
    guard !blocked.contains(packet.sender) else {
      counters.blocked += 1
      return
    }
    perform(pings.handlePing(payload, from: packet.sender, on: arrival.link, view(turn)), &turn)
  }

  mutating func handlePong(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard let payload = try? PingPayload(reading: packet.payload),
      let hops = payload.hops(at: arrival.view.timeToLive)
    else {
      counters.unreadable += 1
      return
    }
    // An attacker can ping a neighbour in this node's name and make it answer with the mark of a fragment that was not
    // received. Only an unsolicited pong confirms a fragment.
    let confirmation = FileConfirmation(mark: payload.nonce, isOfFragment: payload.interval != nil)
    if links[arrival.link]?.peer == packet.sender, files.confirm(confirmation, on: arrival.link, at: turn.now) {
      return sendFilesWhatIsDue(&turn)
    }
    perform(pings.handlePong(payload, from: packet.sender, hops: hops, at: turn.now), &turn)
  }
}
