import Common

/// Measures hops and round-trip time to a peer. Facts: bitchat.md section 3.
extension MeshEngine {
  /// Reason why a ping is rejected.
  public enum PingError: Error, Hashable, Sendable {
    /// Sending is not allowed yet, or there is no neighbour.
    case notReady
    case ourselves
    case tooMany
  }

  /// Sends a ping to a peer. `Action.pong` or `Action.pingLost` follows within 10 s.
  ///
  /// - Parameter number: unique number of the ping, chosen by the caller.
  public mutating func ping(
    _ peer: PeerID, as number: UInt32, at now: Instant, time: UInt64
  ) throws(PingError) -> [Action] {
    isDueKnown = false
    guard canSend, !links.isEmpty else { throw .notReady }
    guard peer != identity.id else { throw .ourselves }
    guard pings.hasRoom else { throw .tooMany }
    let nonce = pingNonce()
    pings.add(number, to: peer, nonce: nonce, at: now)
    var turn = Turn(now: now, time: time)
    send(PingPayload(nonce: nonce), as: .ping, to: peer, &turn)
    return turn.actions
  }

  private mutating func pingNonce() -> UInt64 { random.bytes(8).reduce(0) { $0 << 8 | UInt64($1) } }

  /// - Parameter link: nil for the links to the peer, or all links if it is not a neighbour.
  private mutating func send(
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

  /// Sends a ping behind the file packets on a link to an Earshot peer, if a confirmation is due.
  mutating func askForConfirmation(on link: LinkID, _ turn: inout Turn) {
    guard files.isConfirmationDue(on: link), let peer = links[link]?.peer else { return }
    let nonce = pingNonce()
    let interval = files.ask(nonce, on: link, at: turn.now)
    send(PingPayload(nonce: nonce, interval: interval), as: .ping, in: .file, to: peer, over: link, &turn)
  }

  /// Confirms received fragments of a neighbour's files, copies included, at the interval that it asked for.
  mutating func confirm(_ view: PacketView, on link: LinkID, _ turn: inout Turn) {
    guard let place = links.index(of: link), links.values[place].confirmationInterval > 0,
      links.values[place].peer == view.sender, view.recipient.map({ $0 == identity.id }) ?? true,
      let mark = FragmentMark(view)
    else { return }
    links.change(at: place) { $0.unconfirmed += 1 }
    guard links.values[place].unconfirmed >= links.values[place].confirmationInterval,
      canSend, pings.takeAnswer(on: link, isFast: true, at: turn.now)
    else { return }
    links.change(at: place) { $0.unconfirmed = 0 }
    // Interval 0 distinguishes the confirmation from an answer to a ping.
    send(PingPayload(nonce: mark.rawValue, interval: 0), as: .pong, to: view.sender, over: link, &turn)
    turn.isIdle = false
  }

  mutating func hear(ping packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard let payload = try? PingPayload(reading: packet.payload) else {
      counters.unreadable += 1
      return
    }
    guard !blocked.contains(packet.sender) else {
      counters.blocked += 1
      return
    }
    // An Earshot neighbour has its file packets confirmed. Pings that it relays are limited as for any peer, because
    // their answers would go over all links.
    let isNeighbours = links[arrival.link]?.peer == packet.sender
    let isOften = isNeighbours && isFast(arrival.link)
    guard canSend, pings.takeAnswer(on: arrival.link, isFast: isOften, at: turn.now) else {
      counters.refusedPings += 1
      return
    }
    if isOften, let interval = payload.interval, let place = links.index(of: arrival.link) {
      links.change(at: place) { ($0.confirmationInterval, $0.unconfirmed) = (Int(interval), 0) }
    }
    send(
      PingPayload(nonce: payload.nonce), as: .pong, to: packet.sender, over: isNeighbours ? arrival.link : nil, &turn)
  }

  mutating func hear(pong packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
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
    guard let (number, time) = pings.take(payload.nonce, from: packet.sender, at: turn.now) else {
      counters.unaskedPongs += 1
      return
    }
    turn.actions.append(.pong(number, milliseconds: UInt32(max(0, time / .milliseconds(1))), hops: hops))
  }
}
