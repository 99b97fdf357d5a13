import Common
import Crypto
import Noise

extension MeshEngine {
  /// Reason why a private text is rejected.
  public enum TellError: Error, Hashable, Sendable {
    /// The text is longer than 64 KiB.
    case tooLong
    /// A limit of the outbox is reached.
    case full(Outbox.Refusal)
    /// The node is a relay and sends no messages.
    case relayOnly
    /// The apps would treat the text, or a part of it, as a favourite notice and not show it.
    case notice
  }

  /// Queues a private text. It is sent in a session with the peer, and repeated until the peer acknowledges it.
  ///
  /// - Parameter number: unique number of the message, chosen by the caller.
  public mutating func tell(
    _ text: String, to peer: PeerID, as number: UInt32, at now: Instant, time: UInt64
  ) throws(TellError) -> [Action] {
    isDueKnown = false
    guard configuration.role.sends else { throw .relayOnly }
    guard let pieces = try? PrivateText.pieces(of: text) else { throw .tooLong }
    guard !pieces.contains(where: FavoriteNotice.mayBeTaken) else { throw .notice }
    let message = OutgoingMessage(
      number: number, peer: peer,
      pieces: pieces.map { OutgoingMessage.Piece(id: MessageID(randomFrom: &random), text: $0) }, createdAt: time,
      noiseKey: table.noiseKey(of: peer), isDated: gate.isClockTrusted)
    return try restore(message, at: now, time: time, isNew: true)
  }

  /// Restores an undelivered message of an earlier run.
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
    courier.restore(message)
    var turn = Turn(now: now, time: time)
    if isNew { turn.actions.append(.keep(.outgoing(message))) }
    courier.hurry(at: now)
    if canSend {
      sendWhatIsDue(&turn)
      courierWhatIsDue(&turn)
    }
    return turn.actions
  }

  /// Records whether the clock is known to be right. Dates the messages that were queued before it was.
  mutating func trustClock(_ isTrusted: Bool, _ turn: inout Turn) {
    gate.trustClock(isTrusted)
    guard isTrusted else { return }
    for message in outbox.date(at: turn.now, time: turn.time) {
      turn.actions.append(.dated(message.number, message.createdAt))
      // Delivered messages are no longer persisted.
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
    // Unacknowledged messages may need a courier.
    if !unanswered.isEmpty || !wanted.isEmpty { courier.hurry(at: turn.now) }
    for peer in unanswered.sorted() { carryOut(sessions.handle(.unanswered(peer), at: turn.now), &turn) }
    for peer in wanted.sorted() { carryOut(sessions.handle(.begin(peer), at: turn.now), &turn) }
  }

  /// Records that couriers carry a message of this node.
  mutating func noteDeposit(
    of number: UInt32, with couriers: [PeerID], _ key: X25519.PublicKey, _ turn: inout Turn
  ) {
    guard let deposited = outbox.deposited(number, with: couriers, key: key) else { return }
    turn.actions.append(.keep(.outgoing(deposited.message)))
    if let state = deposited.state { turn.actions.append(.progress(number, state)) }
  }

  /// Sends a payload in the session with a peer. Sends nothing without a session.
  mutating func seal(_ payload: NoisePayload, for peer: PeerID, _ turn: inout Turn) {
    if configuration.speaksSeed, sealInSeed(payload, for: peer, &turn) { return }
    guard let sealed = try? sessions.seal(payload.bytes, for: peer, at: turn.now) else { return }
    send(sealed, as: .noiseEncrypted, to: peer, .own, &turn)
  }

  /// Sends a Noise message over the links that `Transmitter.paths` chooses.
  mutating func send(
    _ payload: [UInt8], as type: MessageType, to peer: PeerID, _ kind: PacketClass, _ turn: inout Turn
  ) {
    let packet = Packet(
      type: type, timestamp: timestamp(turn), sender: identity.id, recipient: peer, payload: payload)
    let paths = Transmitter.paths(
      of: packet, to: peer, isUnanswered: outbox.isUnanswered(by: peer, at: turn.now),
      isInSeed: isReachedInSeed(peer, at: turn.now), view(turn))
    for path in paths { transmit(path.packet, as: kind, to: path.links, &turn) }
  }

  func route(to peer: PeerID, _ turn: Turn) -> [PeerID]? {
    Transmitter.route(to: peer, isInSeed: isReachedInSeed(peer, at: turn.now), view(turn))
  }

  mutating func handleNoise(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard packet.recipient == identity.id, configuration.role.converses else { return }
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
        // Each side sends its state once per session; this proves the signing key.
        seal(.peerState(PeerState(capabilities: .own, signingKey: identity.signingKey.publicKey)), for: peer, &turn)
        announceInSeed(to: peer, &turn)
        perform(courier.sendReceipts(to: peer), &turn)
        files.renew(to: peer, at: turn.now)
        // Earlier messages may have been sealed with keys that the peer does not have.
        outbox.hurry(peer, at: turn.now)
        owed.hurry(peer, at: turn.now)
        ask(peer, &turn)
      case .opened(let peer, let plaintext):
        trustSession(with: peer, &turn)
        turn.actions += owed.opened(from: peer, at: turn.now).map { .receiptSettled($0, from: peer) }
        handlePlaintext(plaintext, from: peer, &turn)
      case .ended(let peer): turn.actions.append(.session(peer))
      case .failed: break
      }
    }
    if canSend {
      sendWhatIsDue(&turn)
      sendOwedNews(&turn)
    }
  }

  private mutating func handlePlaintext(_ plaintext: [UInt8], from peer: PeerID, _ turn: inout Turn) {
    table.hear(peer, at: turn.now)
    guard !handleSeedPayload(plaintext, from: peer, &turn) else { return }
    let payload: NoisePayload
    do throws(NoisePayloadError) {
      payload = try NoisePayload(reading: plaintext)
    } catch {
      if case .unknownType = error { counters.unknownPayloads += 1 } else { counters.unreadable += 1 }
      return
    }
    switch payload {
    case .privateMessage(let message): handlePrivateMessage(message, from: peer, &turn)
    case .delivered(let id): handleReceipt(id, from: peer, isRead: false, &turn)
    case .read(let id): handleReceipt(id, from: peer, isRead: true, &turn)
    case .file(let file):
      let source = FileTransfers.Source(sender: peer, arrival: turn.completing)
      perform(files.handleFile(file, isPublic: false, from: source, view(turn)), &turn)
    case .peerState(let state): handlePeerState(state, of: peer, &turn)
    case .verificationChallenge(let challenge):
      perform(
        challenges.answer(
          challenge, from: peer, noiseKey: identity.noiseKey.publicKey, signingKey: identity.signingKey), &turn)
    case .verificationResponse(let response):
      perform(challenges.handleResponse(response, from: peer, view(turn)), &turn)
    }
  }

  mutating func handlePrivateMessage(_ message: PrivateMessage, from peer: PeerID, _ turn: inout Turn) {
    let received = ReceivedMessage(sender: peer, id: message.id)
    guard !self.received.see(received, at: turn.now) else {
      turn.actions.append(.toldAgain(message.id, from: peer))
      return
    }
    self.received.insert(received, at: turn.now)
    if let notice = FavoriteNotice(text: message.text) {
      courier.favour(by: peer, notice.isFavorite, table)
      return turn.actions.append(.favourited(peer, notice, message.id))
    }
    turn.actions.append(.told(message, from: peer, at: turn.time))
  }

  /// Sends a receipt for a message to its sender.
  mutating func acknowledge(_ receipt: NoisePayload, to peer: PeerID, _ turn: inout Turn) {
    guard !blocked.contains(peer) else { return }
    guard table.has(peer), sessions.hasSession(with: peer) else {
      courier.entrust(receipt, to: peer, at: turn.now, time: turn.time)
      // A neighbour that wrote through a courier may believe that a session exists, and therefore begin none.
      if link(to: peer) != nil { carryOut(sessions.handle(.begin(peer), at: turn.now), &turn) }
      return
    }
    seal(receipt, for: peer, &turn)
  }

  mutating func handleReceipt(_ id: MessageID, from peer: PeerID, isRead: Bool, _ turn: inout Turn) {
    if !isRead, let intents = files.handleReceipt(id, from: peer) { return perform(intents, &turn) }
    if owed.acknowledge(id, from: peer) { turn.actions.append(.noticeSettled(peer)) }
    guard let message = outbox.acknowledge(id, from: peer, isRead: isRead, at: turn.now) else { return }
    if message.state != .sent { courier.forget(message) }
    turn.actions.append(.progress(message.number, message.state))
    guard message.state == .delivered || message.state == .read else { return }
    turn.actions.append(.keep(.settled(message.number)))
    // A courier that has brought the receipt may have capacity for another message.
    if !message.couriers.isEmpty { courier.hurry(at: turn.now) }
  }

  /// Handles the signing key that a peer states inside Noise, which proves it.
  private mutating func handlePeerState(_ state: PeerState, of peer: PeerID, _ turn: inout Turn) {
    files.note(state.capabilities, of: peer, limit: Self.sessionLimits.sessions, view(turn))
    guard table.pin(of: peer) != state.signingKey || !table.isProven(peer) else { return }
    settle(peer, state.signingKey, &turn)
  }
}
