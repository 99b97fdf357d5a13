import Common

/// Favourite notices and read receipts, which are repeated until they are acknowledged.
extension MeshEngine {
  /// Restores a favourite of an earlier run.
  ///
  /// - Parameter isNoticed: whether the peer has acknowledged the last notice about it.
  public mutating func restore(favourite peer: PeerID, _ isFavourite: Bool, isNoticed: Bool, at now: Instant) {
    isDueKnown = false
    if isFavourite {
      favourites.insert(peer)
      table.hold(peer, true)
    }
    if !isNoticed { oweNotice(to: peer, isFavourite, at: now) }
  }

  /// Restores a read receipt that an earlier run may have sent without success.
  public mutating func restoreReceipt(for message: MessageID, to peer: PeerID, at now: Instant) {
    isDueKnown = false
    owed.oweReceipt(for: message, to: peer, at: now)
  }

  /// Restores a delivered message of an earlier run, so that its read receipt is recognised.
  public mutating func restore(
    delivered number: UInt32, _ ids: [MessageID], to peer: PeerID, createdAt: UInt64, at now: Instant
  ) {
    isDueKnown = false
    let pieces = ids.map { OutgoingMessage.Piece(id: $0, text: "", isDelivered: true) }
    outbox.add(delivered: OutgoingMessage(number: number, peer: peer, pieces: pieces, createdAt: createdAt), at: now)
  }

  mutating func oweNotice(to peer: PeerID, _ isFavourite: Bool, at now: Instant) {
    let id = MessageID(randomFrom: &random)
    owed.owe(OwedNews.Notice(id: id, isFavourite: isFavourite), to: peer, at: now)
  }

  /// Handles a message that the user has read.
  mutating func noteRead(_ message: MessageID, from peer: PeerID, _ turn: inout Turn) {
    guard !blocked.contains(peer) else {
      // A blocked peer gets no receipt, now or later.
      turn.actions.append(.receiptSettled(message, from: peer))
      return
    }
    owed.oweReceipt(for: message, to: peer, at: turn.now)
    if !table.has(peer) || !sessions.hasSession(with: peer) {
      courier.entrust(.read(message), to: peer, at: turn.now, time: turn.time)
    }
    if canSend { sendOwedNews(&turn) }
  }

  mutating func sendOwedNews(_ turn: inout Turn) {
    guard let due = owed.deadline, due <= turn.now else { return }
    let (news, wanted) = owed.takeDue(at: turn.now, reach: reach)
    for news in news where !blocked.contains(news.peer) {
      if let notice = news.notice {
        let text = FavoriteNotice(isFavorite: notice.isFavourite).text
        if let message = try? PrivateMessage(id: notice.id, text: text) {
          seal(.privateMessage(message), for: news.peer, &turn)
        }
      }
      for id in news.receipts { seal(.read(id), for: news.peer, &turn) }
      // A peer with the session's keys acknowledges a notice at once.
      if news.notice != nil, news.tries > 1 {
        carryOut(sessions.handle(.unanswered(news.peer), at: turn.now), &turn)
      }
    }
    for peer in wanted where !blocked.contains(peer) {
      carryOut(sessions.handle(.begin(peer), at: turn.now), &turn)
    }
  }

  /// Returns how a peer can be reached with a private message now.
  var reach: (PeerID) -> Outbox.Reach {
    { [table, sessions, hasLinks = !links.isEmpty] peer in
      guard table.has(peer) else { return .away }
      guard hasLinks else { return .cutOff }
      return sessions.hasSession(with: peer) ? .session : .near
    }
  }

  // MARK: Sessions that the peer may have lost

  /// Sends this node's state over a new link of a peer with a session. A peer that has lost the session then begins a
  /// new one.
  mutating func probeSession(with peer: PeerID, _ turn: inout Turn) {
    guard canSend, sessions.hasSession(with: peer), !blocked.contains(peer) else { return }
    seal(.peerState(PeerState(capabilities: .own, signingKey: identity.signingKey.publicKey)), for: peer, &turn)
  }

  /// Marks the session of a peer whose last link ended without a leave. The session is in doubt until something from
  /// the peer is decrypted.
  mutating func doubtSession(with peer: PeerID) {
    guard sessions.hasSession(with: peer) else { return }
    // Peers whose sessions have ended are removed first.
    if doubtful.count >= Self.sessionLimits.sessions { doubtful = doubtful.filter { sessions.hasSession(with: $0) } }
    doubtful.insert(peer)
  }

  mutating func trustSession(with peer: PeerID, _ turn: inout Turn) {
    if doubtful.remove(peer) != nil { turn.actions.append(.session(peer)) }
  }
}
