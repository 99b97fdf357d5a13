import BitchatWire
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
      noiseKey: neighbourhood.peers.noiseKey(of: peer), isDated: gate.isClockTrusted)
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
      try messages.add(message, at: now)
    } catch {
      throw .full(error)
    }
    courier.restore(message)
    var turn = Turn(now: now, time: time)
    if isNew { turn.actions.append(.keep(.outgoing(message))) }
    findOtherWays(at: now)
    if canSend {
      sendWhatIsDue(&turn)
      courierWhatIsDue(&turn)
      uplinkWhatIsDue(&turn)
    }
    return turn.actions
  }

  /// Restores a favourite of an earlier run.
  ///
  /// - Parameter isNoticed: whether the peer has acknowledged the last notice about it.
  public mutating func restore(favourite peer: PeerID, _ isFavourite: Bool, isNoticed: Bool, at now: Instant) {
    isDueKnown = false
    if isFavourite {
      favourites.insert(peer)
      neighbourhood.hold(peer, true)
    }
    if !isNoticed { oweNotice(to: peer, isFavourite, at: now) }
  }

  /// Restores a read receipt that an earlier run may have sent without success.
  public mutating func restoreReceipt(for message: MessageID, to peer: PeerID, at now: Instant) {
    isDueKnown = false
    messages.oweReceipt(for: message, to: peer, at: now)
  }

  /// Restores a delivered message of an earlier run, so that its read receipt is recognised.
  public mutating func restore(
    delivered number: UInt32, _ ids: [MessageID], to peer: PeerID, createdAt: UInt64, at now: Instant
  ) {
    isDueKnown = false
    let pieces = ids.map { OutgoingMessage.Piece(id: $0, text: "", isDelivered: true) }
    messages.add(
      delivered: OutgoingMessage(number: number, peer: peer, pieces: pieces, createdAt: createdAt), at: now)
  }

  /// Records whether the clock is trusted. When it becomes trusted, the queued messages get their dates.
  mutating func trustClock(_ isTrusted: Bool, _ turn: inout Turn) {
    gate.trustClock(isTrusted)
    if isTrusted { perform(messages.date(at: turn.now, time: turn.time), &turn) }
  }

  mutating func oweNotice(to peer: PeerID, _ isFavourite: Bool, at now: Instant) {
    let id = MessageID(randomFrom: &random)
    messages.owe(OwedNews.Notice(id: id, isFavourite: isFavourite), to: peer, at: now)
  }

  // MARK: Due messages

  /// Facts that decide which private messages are sent.
  private func messageContext(_ turn: Turn) -> DirectMessages.Context {
    DirectMessages.Context(
      now: turn.now, time: turn.time, peers: neighbourhood.peers, blocked: blocked,
      hasLinks: !neighbourhood.links.isEmpty, uplinkKey: uplinkKey)
  }

  mutating func sendWhatIsDue(_ turn: inout Turn) {
    guard let due = messages.outbox.deadline, due <= turn.now else { return }
    perform(messages.sendMessages(messageContext(turn)), &turn)
  }

  mutating func sendOwedNews(_ turn: inout Turn) {
    guard let due = messages.owed.deadline, due <= turn.now else { return }
    perform(messages.sendNews(messageContext(turn)), &turn)
  }

  /// Sends a payload in the session with a peer. Sends nothing without a session.
  mutating func seal(_ payload: NoisePayload, for peer: PeerID, _ turn: inout Turn) {
    switch privateForm(of: payload, for: peer, turn) {
    case .sealed(let plaintext):
      guard let sealed = try? messages.encrypt(plaintext, for: peer, at: turn.now) else { return }
      send(sealed, as: .noiseEncrypted, to: peer, .own, &turn)
    case .clear(let bytes, let type): send(bytes, as: type, to: peer, .own, &turn)
    case .none: break
    }
  }

  /// Sends a Noise message over the links that `Transmitter.paths` chooses.
  mutating func send(
    _ payload: [UInt8], as type: MessageType, to peer: PeerID, _ kind: PacketClass, _ turn: inout Turn
  ) {
    let packet = Packet(
      type: type, timestamp: timestamp(turn), sender: identity.id, recipient: peer, payload: payload)
    let paths = Transmitter.paths(
      of: packet, to: peer, isUnanswered: messages.outbox.isUnanswered(by: peer, at: turn.now),
      in: reach(of: peer, turn), view(turn))
    for path in paths { transmit(path.packet, as: kind, to: path.links, &turn) }
  }

  func route(to peer: PeerID, _ turn: Turn) -> [PeerID]? {
    Transmitter.route(to: peer, in: reach(of: peer, turn), view(turn))
  }

  // MARK: Sessions

  /// Handles an event of the sessions.
  mutating func handleSession(_ event: Sessions<PeerID>.Event, _ turn: inout Turn) {
    carryOut(messages.handle(event, neighbourhood.peers, at: turn.now), &turn)
  }

  /// Carries out actions of the sessions, and sends the messages that become due.
  mutating func carryOut(_ actions: [Sessions<PeerID>.Action], _ turn: inout Turn) {
    for action in actions { perform(messages.handle(action, at: turn.now), &turn) }
    if canSend {
      sendWhatIsDue(&turn)
      sendOwedNews(&turn)
    }
  }

  /// Sends everything that waited for a session with a peer.
  mutating func beginSession(with peer: PeerID, _ turn: inout Turn) {
    announce(afterSessionWith: peer, &turn)
    perform(courier.sendReceipts(to: peer), &turn)
    files.renew(to: peer, at: turn.now)
    // Earlier messages may have been sealed with keys that the peer does not have.
    messages.hurry(peer, at: turn.now)
    ask(peer, &turn)
  }

  mutating func handleNoise(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) {
    guard packet.recipient == identity.id, configuration.role.converses else { return }
    guard !blocked.contains(packet.sender) else {
      counters.blocked += 1
      return
    }
    let source = origin(of: arrival.link).source
    let isHandshake = isHandshake(packet, turn)
    handleSession(
      isHandshake
        ? .handshake(packet.sender, packet.payload, from: source)
        : .message(packet.sender, packet.payload, from: source), &turn)
  }

  mutating func handlePlaintext(_ plaintext: [UInt8], from peer: PeerID, _ turn: inout Turn) {
    neighbourhood.handlePacket(of: peer, at: turn.now)
    if let content = translated(sealed: plaintext, from: peer) {
      counters.translatedPackets += 1
      guard let payload = content.payload else {
        counters.unreadable += 1
        return
      }
      return handle(payload, from: peer, &turn)
    }
    do throws(NoisePayloadError) {
      handle(try NoisePayload(reading: plaintext), from: peer, &turn)
    } catch {
      if case .unknownType = error { counters.unknownPayloads += 1 } else { counters.unreadable += 1 }
    }
  }

  private mutating func handle(_ payload: NoisePayload, from peer: PeerID, _ turn: inout Turn) {
    switch payload {
    case .privateMessage(let message):
      noteNoticeTime(of: message, from: peer, turn)
      handlePrivateMessage(message, from: peer, &turn)
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
    perform(messages.handleMessage(message, from: peer, at: turn.now, time: turn.time), &turn)
  }

  /// Handles a message that the user has read.
  mutating func noteRead(_ message: MessageID, from peer: PeerID, _ turn: inout Turn) {
    perform(messages.noteRead(message, from: peer, messageContext(turn)), &turn)
    returnByUplink(.read(message), to: peer, &turn)
    if canSend, !blocked.contains(peer) { sendOwedNews(&turn) }
  }

  /// Sends a receipt for a message to its sender.
  mutating func acknowledge(_ receipt: NoisePayload, to peer: PeerID, _ turn: inout Turn) {
    perform(
      messages.acknowledge(receipt, to: peer, isNeighbour: link(to: peer) != nil, messageContext(turn)), &turn)
    returnByUplink(receipt, to: peer, &turn)
  }

  mutating func handleReceipt(_ id: MessageID, from peer: PeerID, isRead: Bool, _ turn: inout Turn) {
    if !isRead, let intents = files.handleReceipt(id, from: peer) { return perform(intents, &turn) }
    settleUplink(id, of: peer, &turn)
    perform(messages.handleReceipt(id, from: peer, isRead: isRead, at: turn.now), &turn)
  }

  /// Handles the signing key that a peer states inside Noise, which proves it.
  private mutating func handlePeerState(_ state: PeerState, of peer: PeerID, _ turn: inout Turn) {
    files.note(state.capabilities, of: peer, limit: Self.sessionLimits.sessions, view(turn))
    guard neighbourhood.peers.pin(of: peer) != state.signingKey || !neighbourhood.peers.isProven(peer) else { return }
    settle(peer, state.signingKey, &turn)
  }
}
