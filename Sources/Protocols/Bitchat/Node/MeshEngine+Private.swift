import Common
import Crypto
import Noise

extension MeshEngine {
  /// Why a private text is not taken.
  public enum TellError: Error, Hashable, Sendable {
    /// It is longer than 64 KiB.
    case tooLong
    /// So much waits already.
    case full(Outbox.Refusal)
    /// A relay has nothing to say.
    case relayOnly
    /// The apps would take it, or one of its pieces, for a notice that the peer is a favourite, and not show it.
    case notice
  }

  /// Takes a private text. It goes out when there is a session with the peer, and again until the peer has it.
  ///
  /// - Parameter number: what the service calls it; no two have the same.
  public mutating func tell(
    _ text: String, to peer: PeerID, as number: UInt32, at now: Instant, time: UInt64
  ) throws(TellError) -> [Action] {
    isDueKnown = false
    guard !configuration.isRelayOnly else { throw .relayOnly }
    guard let pieces = try? PrivateText.pieces(of: text) else { throw .tooLong }
    guard !pieces.contains(where: FavoriteNotice.mayBeTaken) else { throw .notice }
    let message = OutgoingMessage(
      number: number, peer: peer,
      pieces: pieces.map { OutgoingMessage.Piece(id: MessageID(randomFrom: &random), text: $0) }, createdAt: time,
      noiseKey: table.noiseKey(of: peer), isDated: isClockTrusted)
    return try restore(message, at: now, time: time, isNew: true)
  }

  /// Takes over a message that an earlier run has not delivered.
  public mutating func restore(
    _ message: OutgoingMessage, at now: Instant, time: UInt64
  ) throws(TellError) -> [Action] {
    isDueKnown = false
    return try restore(message, at: now, time: time, isNew: false)
  }

  private mutating func restore(
    _ message: OutgoingMessage, at now: Instant, time: UInt64, isNew: Bool
  ) throws(TellError) -> [Action] {
    do throws(Outbox.Refusal) {
      try outbox.add(message, at: now)
    } catch {
      throw .full(error)
    }
    for peer in message.couriers {
      for piece in message.pieces where !piece.isDelivered {
        courier.books.give(piece.id, to: peer, until: message.createdAt &+ CourierEnvelope.lifetime)
      }
    }
    var turn = Turn(now: now, time: time)
    if isNew { turn.actions.append(.keep(.outgoing(message))) }
    courier.due = now
    if canSend {
      sendWhatIsDue(&turn)
      courierWhatIsDue(&turn)
    }
    return turn.actions
  }

  /// The clock is known to be right, or no longer.
  mutating func trustClock(_ isTrusted: Bool, _ turn: inout Turn) {
    isClockTrusted = isTrusted
    guard isTrusted else { return }
    for message in outbox.date(at: turn.now, time: turn.time) {
      turn.actions.append(.dated(message.number, message.createdAt))
      // What the peer has is kept no longer.
      if message.state == .waiting || message.state == .sent { turn.actions.append(.keep(.outgoing(message))) }
    }
  }

  mutating func sendWhatIsDue(_ turn: inout Turn) {
    guard let due = outbox.deadline, due <= turn.now else { return }
    let (messages, wanted, unanswered, failed) = outbox.takeDue(at: turn.now, time: turn.time, reach: reach)
    for due in messages {
      let message = due.message
      turn.actions.append(.keep(.outgoing(message)))
      for piece in due.pieces {
        if let body = try? PrivateMessage(id: piece.id, text: piece.text) {
          seal(.privateMessage(body), for: message.peer, &turn)
        }
      }
      if let state = outbox.sent(message.number) { turn.actions.append(.progress(message.number, state)) }
    }
    for number in failed { turn.actions += [.progress(number, .failed), .keep(.settled(number))] }
    // What the peer has not acknowledged may need a courier.
    if !unanswered.isEmpty || !wanted.isEmpty { courier.due = turn.now }
    for peer in unanswered.sorted() { carryOut(sessions.handle(.unanswered(peer), at: turn.now), &turn) }
    for peer in wanted.sorted() { carryOut(sessions.handle(.begin(peer), at: turn.now), &turn) }
  }

  /// Sends something inside the session with a peer; without a session nothing is sent.
  mutating func seal(_ payload: NoisePayload, for peer: PeerID, _ turn: inout Turn) {
    if configuration.speaksSeed, sealInSeed(payload, for: peer, &turn) { return }
    guard let sealed = try? sessions.seal(payload.bytes, for: peer, at: turn.now) else { return }
    send(sealed, as: .noiseEncrypted, to: peer, .own, &turn)
  }

  /// Sends a Noise message: to a neighbour over its own links and those that its announces arrive over as well, to another peer by a route
  /// where one is known, else over all links. A message goes over all links, too, while the peer has not answered earlier ones, or does not
  /// name this node as its neighbour.
  mutating func send(
    _ payload: [UInt8], as type: MessageType, to peer: PeerID, _ kind: PacketClass, _ turn: inout Turn
  ) {
    var packet = Packet(
      type: type, timestamp: timestamp(turn), sender: identity.id, recipient: peer, payload: payload)
    let isUnanswered = outbox.isUnanswered(by: peer, at: turn.now)
    let own = ownLinks(of: peer)
    if !own.isEmpty, !isUnanswered {
      guard !isDoubtful(peer) else { return transmit(packet, as: kind, to: targets(), &turn) }
      transmit(packet, as: kind, to: own, &turn)
      let others = ways.others(to: peer, besides: own, at: turn.now)
      guard let farthest = others.map(\.hops).max() else { return }
      // One hop more than its announces took is enough if the peer names this node as its neighbour.
      if table[peer]?.names(identity.id) == true {
        packet.timeToLive = UInt8(clamping: min(farthest + 1, Int(Limits.timeToLive)))
      }
      return transmit(packet, as: kind, to: others.map(\.link), &turn)
    }
    // A hop that passes nothing on would be asked without end.
    if !isUnanswered, type != .noiseHandshake, let route = route(to: peer, turn), let first = route.first,
      case let hop = links(to: first), !hop.isEmpty
    {
      (packet.version, packet.route) = (.v2, route)
      return transmit(packet, as: kind, to: hop, &turn)
    }
    transmit(packet, as: kind, to: targets(), &turn)
  }

  func route(to peer: PeerID, _ turn: Turn) -> [PeerID]? {
    // A route leads by whichever dialect; in dialect S a packet goes where that is spoken.
    guard table[peer]?.version == .v2, !isReachedInSeed(peer, at: turn.now) else { return nil }
    let topology = Topology(own: identity.id, neighbours: neighbours, peers: table.peers.values, at: turn.now)
    return topology.route(from: identity.id, to: peer) { table[$0]?.version == .v2 }
  }

  mutating func hear(noise packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard packet.recipient == identity.id, !configuration.isRelayOnly else { return }
    guard !blocked.contains(packet.sender) else {
      counters.blocked += 1
      return
    }
    let source = origin(of: arrival.link).source
    let event: Sessions<PeerID>.Event =
      packet.type == .noiseHandshake || isSeedAnswer(packet)
      ? .handshake(packet.sender, packet.payload, from: source) : .message(packet.sender, packet.payload, from: source)
    carryOut(sessions.handle(event, at: turn.now) { [table] in table.worth(of: $0) }, &turn)
  }

  mutating func carryOut(_ actions: [Sessions<PeerID>.Action], _ turn: inout Turn) {
    for action in actions {
      switch action {
      case .send(let peer, let message): send(message, as: .noiseHandshake, to: peer, .handshake, &turn)
      case .established(let peer, _, _):
        doubtful.remove(peer)
        turn.actions.append(.session(peer))
        // Each side tells its state once; that proves the signing key.
        seal(.peerState(PeerState(capabilities: .own, signingKey: identity.signingKey.publicKey)), for: peer, &turn)
        announceInSeed(to: peer, &turn)
        for receipt in courier.takeReceipts(for: peer) { seal(receipt.payload, for: peer, &turn) }
        renewFiles(to: peer, &turn)
        // What was sent before may have been sealed with keys that the peer never had.
        outbox.hurry(peer, at: turn.now)
        owed.hurry(peer, at: turn.now)
        ask(peer, &turn)
      case .opened(let peer, let plaintext):
        trustSession(with: peer, &turn)
        turn.actions += owed.opened(from: peer, at: turn.now).map { .receiptSettled($0, from: peer) }
        hear(plaintext, from: peer, &turn)
      case .ended(let peer): turn.actions.append(.session(peer))
      case .failed: break
      }
    }
    if canSend {
      sendWhatIsDue(&turn)
      sendOwedNews(&turn)
    }
  }

  private mutating func hear(_ plaintext: [UInt8], from peer: PeerID, _ turn: inout Turn) {
    table.hear(peer, at: turn.now)
    guard !hear(sealed: plaintext, from: peer, &turn) else { return }
    let payload: NoisePayload
    do throws(NoisePayloadError) {
      payload = try NoisePayload(reading: plaintext)
    } catch {
      if case .unknownType = error { counters.unknownPayloads += 1 } else { counters.unreadable += 1 }
      return
    }
    switch payload {
    case .privateMessage(let message): hear(message, from: peer, &turn)
    case .delivered(let id): note(id, from: peer, isRead: false, &turn)
    case .read(let id): note(id, from: peer, isRead: true, &turn)
    case .file(let file): hear(privateFile: file, from: peer, &turn)
    case .peerState(let state): prove(state, of: peer, &turn)
    case .verificationChallenge(let challenge): answer(challenge, to: peer, &turn)
    case .verificationResponse(let response): hear(response, from: peer, &turn)
    }
  }

  mutating func hear(_ message: PrivateMessage, from peer: PeerID, _ turn: inout Turn) {
    let received = ReceivedMessage(sender: peer, id: message.id)
    guard !self.received.see(received, at: turn.now) else {
      turn.actions.append(.toldAgain(message.id, from: peer))
      return
    }
    self.received.insert(received, at: turn.now)
    if let notice = FavoriteNotice(text: message.text) {
      favour(by: peer, notice.isFavorite)
      return turn.actions.append(.favourited(peer, notice, message.id))
    }
    turn.actions.append(.told(message, from: peer, at: turn.time))
  }

  /// Tells a peer what became of its message.
  mutating func acknowledge(_ receipt: NoisePayload, to peer: PeerID, _ turn: inout Turn) {
    guard !blocked.contains(peer) else { return }
    guard table.has(peer), sessions.hasSession(with: peer) else {
      entrust(receipt, to: peer, &turn)
      // A neighbour that has written by a courier may think that there is a session still, and begin none.
      if link(to: peer) != nil { carryOut(sessions.handle(.begin(peer), at: turn.now), &turn) }
      return
    }
    seal(receipt, for: peer, &turn)
  }

  mutating func note(_ id: MessageID, from peer: PeerID, isRead: Bool, _ turn: inout Turn) {
    if !isRead, noteFile(id, from: peer, &turn) { return }
    if owed.acknowledge(id, from: peer) { turn.actions.append(.noticeSettled(peer)) }
    guard let message = outbox.acknowledge(id, from: peer, isRead: isRead, at: turn.now) else { return }
    if message.state != .sent { for piece in message.pieces { courier.forget(piece.id) } }
    turn.actions.append(.progress(message.number, message.state))
    guard message.state == .delivered || message.state == .read else { return }
    turn.actions.append(.keep(.settled(message.number)))
    // The courier that has brought this may have a place for another one.
    if !message.couriers.isEmpty { courier.due = turn.now }
  }

  /// Handles the signing key that a peer states inside Noise, which proves it.
  private mutating func prove(_ state: PeerState, of peer: PeerID, _ turn: inout Turn) {
    // Of those without a session nothing is needed: they say it again in the next one.
    if proven.count >= Self.sessionLimits.sessions { proven = proven.filter { sessions.hasSession(with: $0.key) } }
    proven[peer] = state.capabilities
    hurryFiles(to: peer, &turn)
    guard table.pin(of: peer) != state.signingKey || !table.isProven(peer) else { return }
    settle(peer, state.signingKey, &turn)
  }
}
