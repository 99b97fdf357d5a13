import BitchatWire
import Common
import Crypto
import Noise

/// Private messages of this node and of others: sessions, undelivered messages, favourite notices and receipts. Facts:
/// bitchat.md section 8.
struct DirectMessages: Sendable {
  /// This node's signing key, which it states to the peer in each session.
  private let signingKey: Ed25519.PublicKey
  private(set) var sessions: Sessions<PeerID>
  private(set) var outbox = Outbox()
  /// Favourite notices and read receipts that this node has yet to deliver.
  private(set) var owed = OwedNews()
  /// Peers that may no longer have the keys of their session with this node.
  private var doubtful: Set<PeerID> = []
  /// Received private messages, for the detection of copies: an envelope may arrive a day later.
  private var received = RecentPackets<ReceivedMessage>(limit: 10_000, lifetime: .seconds(26 * 3600))

  /// - Parameters:
  ///   - sessions: sessions of this node, without any peer.
  ///   - signingKey: this node's key.
  init(sessions: Sessions<PeerID>, signingKey: Ed25519.PublicKey) {
    self.sessions = sessions
    self.signingKey = signingKey
  }

  /// Facts about the node that decide what is sent.
  struct Context {
    let now: Instant
    /// Current time, in milliseconds since 1970.
    let time: UInt64
    let peers: PeerTable
    let blocked: Set<PeerID>
    /// Whether the node has a link.
    let hasLinks: Bool
    /// This node's key for the uplink, as text; nil if it has none.
    let uplinkKey: String?
  }

  /// Time at which messages, notices or receipts are due next; nil if none waits.
  var deadline: Instant? {
    guard let message = outbox.deadline else { return owed.deadline }
    return owed.deadline.map { min($0, message) } ?? message
  }

  // MARK: Sessions

  /// Whether there is a session whose keys the peer still has, as far as is known.
  func hasSession(with peer: PeerID) -> Bool { sessions.hasSession(with: peer) && !doubtful.contains(peer) }

  /// Handles an event of the sessions. `handle(action)` follows for each action.
  ///
  /// - Parameter peers: known peers, which decide about the sessions to evict.
  mutating func handle(_ event: Sessions<PeerID>.Event, _ peers: PeerTable, at now: Instant)
    -> [Sessions<PeerID>.Action]
  {
    sessions.handle(event, at: now) { peers.worth(of: $0) }
  }

  /// Handles an action of the sessions.
  mutating func handle(_ action: Sessions<PeerID>.Action, at now: Instant) -> [Intent] {
    switch action {
    case .send(let peer, let message): return [.sendNoise(message, as: .noiseHandshake, to: peer, .handshake)]
    case .established(let peer, _, _):
      doubtful.remove(peer)
      // Each side sends its state once per session; this proves the signing key.
      return [.report(.session(peer)), .seal(.peerState(state), for: peer), .sessionBegan(peer)]
    case .opened(let peer, let plaintext):
      let settled = owed.opened(from: peer, at: now).map { Intent.report(.receiptSettled($0, from: peer)) }
      return trust(peer) + settled + [.handlePlaintext(plaintext, from: peer)]
    case .ended(let peer): return [.report(.session(peer))]
    case .failed: return []
    }
  }

  private var state: PeerState { PeerState(capabilities: .own, signingKey: signingKey) }

  /// Seals a plaintext in the session with a peer. Throws if there is no session.
  mutating func encrypt(_ plaintext: [UInt8], for peer: PeerID, at now: Instant) throws(NoiseError) -> [UInt8] {
    try sessions.seal(plaintext, for: peer, at: now)
  }

  /// Ends the session of a peer that has left.
  mutating func leave(_ peer: PeerID, at now: Instant) { _ = sessions.handle(.forget(peer), at: now) }

  /// Sends this node's state over a new link of a peer with a session. A peer that has lost the session then begins a
  /// new one.
  func probe(_ peer: PeerID, isBlocked: Bool) -> [Intent] {
    guard sessions.hasSession(with: peer), !isBlocked else { return [] }
    return [.seal(.peerState(state), for: peer)]
  }

  /// Marks the session of a peer whose last link ended without a leave as doubtful, until a message of the peer is
  /// decrypted.
  ///
  /// - Parameter limit: maximum number of sessions.
  mutating func doubt(_ peer: PeerID, limit: Int) {
    guard sessions.hasSession(with: peer) else { return }
    // Peers whose sessions have ended are removed first.
    if doubtful.count >= limit { doubtful = doubtful.filter { sessions.hasSession(with: $0) } }
    doubtful.insert(peer)
  }

  private mutating func trust(_ peer: PeerID) -> [Intent] {
    doubtful.remove(peer) == nil ? [] : [.report(.session(peer))]
  }

  // MARK: Messages of this node

  /// Queues a message. It is sent in a session with its peer, and repeated until the peer acknowledges it.
  mutating func add(_ message: OutgoingMessage, at now: Instant) throws(Outbox.Refusal) {
    try outbox.add(message, at: now)
  }

  /// Restores a delivered message that may still be read by the peer.
  mutating func add(delivered message: OutgoingMessage, at now: Instant) { outbox.add(delivered: message, at: now) }

  /// Sets the dates of messages that were queued before the clock was trusted.
  mutating func date(at now: Instant, time: UInt64) -> [Intent] {
    outbox.date(at: now, time: time).flatMap { message -> [Intent] in
      let dated = Intent.report(.dated(message.number, message.createdAt))
      // Delivered messages are no longer persisted.
      let isKept = message.state == .waiting || message.state == .sent
      return isKept ? [dated, .report(.keep(.outgoing(message)))] : [dated]
    }
  }

  /// Makes all messages, notices and receipts for a peer due, because the peer has a new session or has returned.
  mutating func hurry(_ peer: PeerID, at now: Instant) {
    outbox.hurry(peer, at: now)
    owed.hurry(peer, at: now)
  }

  /// Makes all messages, notices and receipts for a new neighbour due.
  ///
  /// - Parameter isOnly: whether it is the only neighbour. It may make other peers reachable again.
  mutating func meet(_ peer: PeerID, isOnly: Bool, at now: Instant) {
    for waiting in isOnly ? outbox.peers : [peer] { outbox.hurry(waiting, at: now) }
    owed.hurry(peer, at: now)
  }

  /// Sends the messages that are due.
  mutating func sendMessages(_ context: Context) -> [Intent] {
    let reach = reach(context)
    let (messages, wanted, unanswered, isCutOff, failed) = outbox.takeDue(
      at: context.now, time: context.time, reach: reach)
    var intents: [Intent] = []
    for due in messages {
      let message = due.message
      intents.append(.report(.keep(.outgoing(message))))
      for piece in due.pieces {
        guard let body = try? PrivateMessage(id: piece.id, text: piece.text) else { continue }
        intents.append(.seal(.privateMessage(body), for: message.peer))
      }
      if let state = outbox.sent(message.number) { intents.append(.report(.progress(message.number, state))) }
    }
    for number in failed {
      intents += [.report(.progress(number, .failed)), .report(.keep(.settled(number)))]
    }
    // Unacknowledged messages may need a courier, and those without any link the uplink.
    if !unanswered.isEmpty || !wanted.isEmpty || isCutOff { intents.append(.hurryCourier) }
    intents += unanswered.sorted().map { .unanswered($0) }
    intents += wanted.sorted().map { .beginSession($0) }
    return intents
  }

  /// Returns in which way a private message can reach a peer now.
  private func reach(_ context: Context) -> (PeerID) -> Outbox.Reach {
    { [sessions] peer in
      guard context.peers.has(peer) else { return .away }
      guard context.hasLinks else { return .cutOff }
      return sessions.hasSession(with: peer) ? .session : .near
    }
  }

  /// Records that these couriers carry a message, so that it is not given to them again.
  mutating func noteDeposit(of number: UInt32, with couriers: [PeerID], _ key: X25519.PublicKey) -> [Intent] {
    guard let deposited = outbox.deposited(number, with: couriers, key: key) else { return [] }
    let kept = Intent.report(.keep(.outgoing(deposited.message)))
    return [kept] + (deposited.state.map { [.report(.progress(number, $0))] } ?? [])
  }

  /// Records that the uplink carries a packet: a fragment of a message, or a read receipt, which is then not due any
  /// more.
  mutating func noteUplink(_ id: UplinkPacket.ID) -> [Intent] {
    switch id.kind {
    case .message:
      guard let (message, state) = outbox.uplinked(id.message, to: id.peer) else { return [] }
      let kept: [Intent] = [.report(.keep(.outgoing(message))), .report(.wentByUplink(message.number))]
      return kept + (state.map { [.report(.progress(message.number, $0))] } ?? [])
    case .read:
      return owed.settle(id.message, to: id.peer) ? [.report(.receiptSettled(id.message, from: id.peer))] : []
    case .delivered: return []
    }
  }

  /// Handles a receipt whose author is authenticated.
  mutating func handleReceipt(_ id: MessageID, from peer: PeerID, isRead: Bool, at now: Instant) -> [Intent] {
    var intents: [Intent] = owed.acknowledge(id, from: peer) ? [.report(.noticeSettled(peer))] : []
    guard let message = outbox.acknowledge(id, from: peer, isRead: isRead, at: now) else { return intents }
    if message.state != .sent { intents.append(.forgetEnvelopes(of: message)) }
    intents.append(.report(.progress(message.number, message.state)))
    guard message.state == .delivered || message.state == .read else { return intents }
    intents.append(.report(.keep(.settled(message.number))))
    // A courier that has brought the receipt may have capacity for another message.
    if !message.couriers.isEmpty { intents.append(.hurryCourier) }
    return intents
  }

  // MARK: Messages of others

  /// Handles a private message whose author is authenticated.
  mutating func handleMessage(_ message: PrivateMessage, from peer: PeerID, at now: Instant, time: UInt64) -> [Intent] {
    let known = ReceivedMessage(sender: peer, id: message.id)
    guard !received.see(known, at: now) else { return [.report(.toldAgain(message.id, from: peer))] }
    received.insert(known, at: now)
    guard let notice = FavoriteNotice(text: message.text) else {
      return [.report(.told(message, from: peer, at: time))]
    }
    return [.favouredBy(peer, notice), .report(.favourited(peer, notice, message.id))]
  }

  /// Restores the ID of a received message, so that copies are not reported.
  mutating func restoreReceived(_ message: MessageID, from peer: PeerID, at now: Instant) {
    received.insert(ReceivedMessage(sender: peer, id: message), at: now)
  }

  /// Forgets a message that the service could not store, so that the next copy is reported to the service again.
  mutating func forgetReceived(_ message: MessageID, from peer: PeerID) {
    received.forget(ReceivedMessage(sender: peer, id: message))
  }

  /// Sends a receipt for a message or file to its sender, over a courier if there is no session.
  ///
  /// - Parameter isNeighbour: whether there is a link to the peer.
  func acknowledge(_ receipt: NoisePayload, to peer: PeerID, isNeighbour: Bool, _ context: Context) -> [Intent] {
    guard !context.blocked.contains(peer) else { return [] }
    guard context.peers.has(peer), sessions.hasSession(with: peer) else {
      // A neighbour that wrote through a courier may believe that a session exists, and therefore begin none.
      return [.entrust(receipt, to: peer)] + (isNeighbour ? [.beginSession(peer)] : [])
    }
    return [.seal(receipt, for: peer)]
  }

  // MARK: Notices and read receipts

  /// Replaces the favourite notice that is pending for a peer.
  mutating func owe(_ notice: OwedNews.Notice, to peer: PeerID, at now: Instant) { owed.owe(notice, to: peer, at: now) }

  /// Restores a read receipt that an earlier run may have sent without success.
  mutating func oweReceipt(for message: MessageID, to peer: PeerID, at now: Instant) {
    owed.oweReceipt(for: message, to: peer, at: now)
  }

  /// Handles a message that the user has read.
  mutating func noteRead(_ message: MessageID, from peer: PeerID, _ context: Context) -> [Intent] {
    // A blocked peer gets no receipt, now or later.
    guard !context.blocked.contains(peer) else { return [.report(.receiptSettled(message, from: peer))] }
    owed.oweReceipt(for: message, to: peer, at: context.now)
    let isReached = context.peers.has(peer) && sessions.hasSession(with: peer)
    return isReached ? [] : [.entrust(.read(message), to: peer)]
  }

  /// Sends the notices and read receipts that are due.
  mutating func sendNews(_ context: Context) -> [Intent] {
    let (news, wanted) = owed.takeDue(at: context.now, reach: reach(context))
    var intents: [Intent] = []
    for news in news where !context.blocked.contains(news.peer) {
      if let notice = news.notice {
        let text = FavoriteNotice(isFavorite: notice.isFavourite, npub: context.uplinkKey).text
        if let message = try? PrivateMessage(id: notice.id, text: text) {
          intents.append(.seal(.privateMessage(message), for: news.peer))
        }
      }
      intents += news.receipts.map { .seal(.read($0), for: news.peer) }
      // A peer with the session's keys acknowledges a notice at once.
      if news.notice != nil, news.tries > 1 { intents.append(.unanswered(news.peer)) }
    }
    return intents + wanted.filter { !context.blocked.contains($0) }.map { .beginSession($0) }
  }

  // MARK: Ends

  /// Removes a forgotten peer's session, waiting messages and receipts; the messages fail.
  mutating func forget(_ peer: PeerID, at now: Instant) -> [Intent] {
    _ = sessions.handle(.forget(peer), at: now)
    owed.forget(peer)
    doubtful.remove(peer)
    let forgotten = outbox.forget(peer)
    return forgotten.undelivered.map { .report(.progress($0, .failed)) }
      + forgotten.all.map { .report(.keep(.settled($0))) }
  }
}
