import BitchatWire
import Common
import Crypto

/// Carries envelopes of other peers, and deposits own messages with couriers for peers that are out of range. Facts:
/// bitchat.md section 8.5.
struct Courier: Sendable {
  private(set) var desk: CourierState
  /// Peers that have marked this node as a favourite. Such a peer carries more of this node's envelopes when it is a
  /// courier.
  private(set) var favouredBy: Set<PeerID> = []

  /// - Parameter limit: maximum envelopes carried for others.
  init(limit: Int) { desk = CourierState(limit: limit) }

  /// Number of envelopes carried for others.
  var carried: Int { desk.bag.count }
  /// Whether this node stores no envelope of others.
  var isEmpty: Bool { desk.bag.isEmpty }
  /// Slots per depositor that the announce states: `CourierState.saidPlaces`.
  var saidPlaces: UInt8? { desk.saidPlaces }

  /// Next time at which the courier has work; nil if there is none.
  var deadline: Instant? {
    guard desk.ages else { return desk.due }
    return desk.due.map { min($0, desk.ageAt) } ?? desk.ageAt
  }

  /// Requests that the courier checks now whether messages need a courier.
  mutating func hurry(at now: Instant) { desk.due = now }

  /// Restores an envelope of an earlier run.
  ///
  /// - Returns: false if there is no capacity for it.
  mutating func restore(_ carried: CarriedEnvelope) -> Bool { desk.bag.restore(carried) }

  /// Restores the index of couriers that carry a message.
  mutating func restore(_ message: OutgoingMessage) {
    for peer in message.couriers {
      for piece in message.pieces where !piece.isDelivered {
        desk.books.give(piece.id, to: peer, until: message.createdAt &+ CourierEnvelope.lifetime)
      }
    }
  }

  /// Removes all data about a peer.
  mutating func forget(_ peer: PeerID) { desk.forget(peer) }

  /// Removes the envelopes of a message that was delivered.
  mutating func forget(_ message: OutgoingMessage) { for piece in message.pieces { desk.forget(piece.id) } }

  /// Records whether a peer reports this node as its favourite, in this run or an earlier one.
  mutating func favour(by peer: PeerID, _ isFavourite: Bool, _ peers: PeerTable) {
    favouredBy.remove(peer)
    guard isFavourite else { return }
    // A sender can report this under any number of names. At the limit, a peer that is not in range is dropped.
    if favouredBy.count >= PeerTable.peerLimit, let other = favouredBy.first(where: { !peers.has($0) }) {
      favouredBy.remove(other)
    }
    if favouredBy.count < PeerTable.peerLimit { favouredBy.insert(peer) }
  }

  // MARK: Received envelopes

  /// How an envelope that has arrived is handled.
  enum Reception {
    /// The envelope is dropped, and copies of it can be ignored.
    case ignored([Intent])
    /// The envelope is for this node: `open` follows, if the link has budget for it.
    case own(CourierEnvelope, [Intent])
    /// The envelope is for another peer and comes from a neighbour: `carry` follows, if the signature is valid.
    case foreign(CourierEnvelope, Peer, [Intent])
  }

  /// Decides how a received envelope is handled.
  ///
  /// - Parameter key: this node's key, which decides whether the envelope is for this node.
  func receive(_ packet: Packet, _ arrival: Arrival, for key: X25519.PublicKey, _ view: NodeView) -> Reception {
    guard view.role.receives else { return .ignored([]) }
    guard !view.blocked.contains(packet.sender) else { return .ignored([.count(\.blocked)]) }
    guard let envelope = try? CourierEnvelope(reading: packet.payload) else {
      return .ignored([.count(\.courier.malformed)])
    }
    guard envelope.expiry > view.time else { return .ignored([.count(\.courier.tooLate)]) }
    guard envelope.expiry - view.time <= CourierEnvelope.lifetime + CourierEnvelope.slack else {
      return .ignored([.count(\.courier.tooLong)])
    }
    let counted: [Intent] =
      envelope.copies > CourierEnvelope.mostCopies ? [.count(\.courier.tooManyCopies)] : []
    guard !CourierTag.near(view.time, for: key).contains(envelope.tag) else { return .own(envelope, counted) }
    guard arrival.view.timeToLive >= Limits.timeToLive, !arrival.isAnswer,
      view.peer(of: arrival.link) == packet.sender, let depositor = view.peers[packet.sender]
    else { return .ignored(counted + [.count(\.courier.notOfNeighbours)]) }
    return .foreign(envelope, depositor, counted)
  }

  /// Opens an envelope for this node. The Noise message authenticates its author, independent of the courier.
  ///
  /// - Parameters:
  ///   - link: link that the envelope arrived on.
  ///   - key: this node's key.
  mutating func open(
    _ envelope: CourierEnvelope, from link: LinkID, with key: X25519.PrivateKey, _ view: NodeView
  ) -> [Intent] {
    let opened: (payload: NoisePayload, sender: X25519.PublicKey)
    do throws(CourierEnvelope.OpeningError) {
      opened = try envelope.open(with: key)
    } catch {
      switch error {
      case .prekey: return [.count(\.courier.forPrekeys)]
      case .notOpened: return [.count(\.courier.notOpened)]
      case .unreadable(.unknownType): return [.count(\.unknownPayloads)]
      case .unreadable: return [.count(\.unreadable)]
      }
    }
    let peer = PeerID(noiseKey: opened.sender)
    guard peer != view.own, !view.blocked.contains(peer) else { return [.count(\.blocked)] }
    switch opened.payload {
    case .privateMessage(let message):
      desk.bring(ReceivedMessage(sender: peer, id: message.id), from: opened.sender, at: view.time)
      return [.count(\.courier.opened), .handlePrivateMessage(message, from: peer)]
    case .delivered(let id), .read(let id):
      if let bearer = view.peer(of: link) { desk.books.answered(id, by: bearer) }
      let isRead = if case .read = opened.payload { true } else { false }
      return [.count(\.courier.opened), .handleReceipt(id, from: peer, isRead: isRead)]
    // Other payloads are valid only in a session.
    default: return [.count(\.courier.opened), .count(\.unknownPayloads)]
    }
  }

  /// Stores an envelope of a neighbour that has signed the packet.
  ///
  /// - Parameter mark: mark of the device that delivered the envelope.
  mutating func carry(
    _ envelope: CourierEnvelope, of depositor: PeerID, isOfFavourite: Bool, via mark: UInt32, _ view: NodeView
  ) -> [Intent] {
    let carried = CarriedEnvelope(
      envelope: envelope, depositor: depositor, isOfFavourite: isOfFavourite, storedAt: view.time, via: mark)
    do throws(CourierStore.Refusal) {
      let taken = try desk.bag.add(carried) { view.peers.knownFor($0) }
      var intents: [Intent] = [
        .count(taken.isNew ? \.courier.taken : \.courier.repeated),
        .count(\.courier.droppedForOthers, by: UInt64(taken.dropped.count)),
      ]
      intents += Self.dropped(taken.dropped)
      if taken.isChanged, let kept = desk.bag.envelopes[carried.id] { intents.append(.report(.keep(.carried(kept)))) }
      return intents
    } catch {
      return [.count(error.counter)]
    }
  }

  private static func dropped(_ ids: [CourierID]) -> [Intent] { ids.map { .report(.keep(.carriedNoMore($0))) } }

  // MARK: Hand-overs

  /// Sends envelopes to a peer that has just announced itself, and copies to a neighbour that can carry them.
  mutating func handlePeer(_ peer: Peer, _ arrival: Arrival, _ view: NodeView) -> [Intent] {
    // An announce in a sync answer does not show where the peer is.
    guard view.canSend, !arrival.isAnswer, !desk.bag.isEmpty, !view.blocked.contains(peer.id) else { return [] }
    let tags = CourierTag.near(view.time, for: peer.noiseKey)
    let links = view.links.links(to: peer.id)
    var batch = Batch()
    var intents: [Intent] = []
    for carried in desk.bag.addressed(to: tags) where carried.envelope.expiry > view.time {
      let isLate = carried.handed >= CourierState.handOvers
      let pause =
        isLate ? CourierState.latePause : links.isEmpty ? CourierState.remotePause : CourierState.directPause
      guard carried.sentAt.map({ $0.duration(to: view.now) >= pause }) ?? true, batch.take(carried) else { continue }
      intents += hand(carried, to: peer.id, over: links, view)
    }
    guard !links.isEmpty, peer.capabilities.showCourier else { return intents }
    // A courier without capacity loses the envelope and half of the copies.
    var places = places(at: peer.id, view)
    for carried in desk.bag.copies(for: peer.id, tags: tags) where carried.envelope.expiry > view.time {
      guard places > 0, batch.take(carried) else { return intents }
      places -= 1
      intents += copy(carried, to: peer.id, over: links)
    }
    return intents
  }

  /// Remaining number and bytes of envelopes to hand over after one announce.
  private struct Batch {
    var count = CourierState.batchCount
    var bytes = CourierState.batchBytes

    mutating func take(_ carried: CarriedEnvelope) -> Bool {
      guard count > 0, bytes > 0 else { return false }
      count -= 1
      bytes -= carried.size
      return true
    }
  }

  /// Sends an envelope to its recipient over its own links and over links on which its announces arrive, or otherwise
  /// over all links. The envelope is stored until it expires, because no receipt confirms it.
  private mutating func hand(
    _ carried: CarriedEnvelope, to peer: PeerID, over links: [LinkID], _ view: NodeView
  ) -> [Intent] {
    let others = view.ways.others(to: peer, besides: links, at: view.now).map(\.link)
    let targets = links.isEmpty || view.isDoubtful(peer) ? view.links.targets() : links + others
    desk.bag.change(carried.id) {
      ($0.sentAt, $0.sentOver) = (view.now, Set(targets))
      if !links.isEmpty { $0.handed += 1 }
    }
    let sent = Intent.sendEnvelope(carried.envelope.with(copies: 1), to: peer, over: targets)
    if links.isEmpty { return [sent, .count(\.courier.sentOverHops)] }
    return carried.handed == 0 ? [sent, .count(\.courier.handedOver)] : [sent]
  }

  /// Sends envelopes over a new link to their recipient if they were sent over other links within
  /// `CourierState.directPause`.
  mutating func handAgain(to peer: PeerID, over link: LinkID, _ view: NodeView) -> [Intent] {
    guard view.canSend, !desk.bag.isEmpty, !view.blocked.contains(peer), let known = view.peers[peer] else { return [] }
    var batch = Batch()
    var intents: [Intent] = []
    let tags = CourierTag.near(view.time, for: known.noiseKey)
    for carried in desk.bag.addressed(to: tags) where carried.envelope.expiry > view.time {
      guard let sentAt = carried.sentAt, sentAt.duration(to: view.now) < CourierState.directPause,
        carried.sentOver.count < CourierState.ways, !carried.sentOver.contains(link), batch.take(carried)
      else { continue }
      intents.append(.sendEnvelope(carried.envelope.with(copies: 1), to: peer, over: [link]))
      desk.bag.change(carried.id) { $0.sentOver.insert(link) }
    }
    return intents
  }

  /// Gives half of the remaining copies of an envelope to another courier.
  private mutating func copy(_ carried: CarriedEnvelope, to peer: PeerID, over links: [LinkID]) -> [Intent] {
    let given = carried.envelope.copies / 2
    desk.bag.change(carried.id) {
      $0.envelope.copies -= given
      $0.givenTo.append(peer)
    }
    let sent: [Intent] = [
      .sendEnvelope(carried.envelope.with(copies: given), to: peer, over: links), .count(\.courier.copied),
    ]
    return sent + (desk.bag.envelopes[carried.id].map { [.report(.keep(.carried($0)))] } ?? [])
  }

  // MARK: Own messages

  /// Neighbours that can serve as couriers now, and those among them that have arrived since the last deposits.
  struct Round {
    let couriers: [PeerID]
    let newcomers: Set<PeerID>
  }

  /// Records a new neighbour, so that waiting messages are deposited with it.
  mutating func meet(_ peer: PeerID, _ neighbours: Set<PeerID>, at now: Instant) {
    // Neighbours may have left while this node was not allowed to send.
    desk.newcomers.formIntersection(neighbours)
    desk.newcomers.insert(peer)
    desk.due = now
  }

  /// Removes expired envelopes, receipts and records, if a minute has passed since the last time.
  mutating func expire(_ view: NodeView) -> [Intent] {
    guard desk.ages, desk.ageAt <= view.now else { return [] }
    desk.ageAt = view.now.advanced(by: CourierState.ageing)
    let old = desk.bag.expire(at: view.time)
    desk.age(at: view.time)
    return [.count(\.courier.expired, by: UInt64(old.count))] + Self.dropped(old)
  }

  /// Begins the deposits, if they are due and couriers are in range. `deposit` follows for each message without another
  /// path (`hasNoPath`), then `depositReceipts`.
  ///
  /// - Parameter favourites: favourites of the user, which are preferred.
  mutating func beginRound(
    preferring favourites: Set<PeerID>, _ view: NodeView, randomFrom random: inout some RandomSource
  ) -> Round? {
    guard let due = desk.due, due <= view.now else { return nil }
    desk.due = nil
    let newcomers = desk.newcomers
    desk.newcomers = []
    guard view.role.converses else { return nil }
    // Peers can choose their ID, so it does not decide among couriers.
    let able = view.neighbours.subtracting(view.blocked)
      .filter { view.peers[$0]?.capabilities.showCourier == true }.sorted()
    let drawn = able.map { peer in
      (peer: peer, rank: favourites.contains(peer) ? 0 : 1, lot: random.number(in: 0...(.max - 1)))
    }
    let couriers = drawn.sorted { ($0.rank, $0.lot) < ($1.rank, $1.lot) }.map(\.peer)
    return couriers.isEmpty ? nil : Round(couriers: couriers, newcomers: newcomers)
  }

  /// Remaining capacity of a courier for this node, as far as it is known.
  private func places(at peer: PeerID, _ view: NodeView) -> Int {
    let usual = view.peers[peer]?.courierPlaces.map { Int($0) } ?? CourierStore.usualPlaces
    let all = favouredBy.contains(peer) ? CourierStore.favouritePlaces(usual) : usual
    return all - desk.books.envelopes(with: peer, at: view.time) - desk.bag.copied(to: peer)
  }

  /// Whether messages sent to the peer directly seem not to arrive.
  ///
  /// - Parameter since: time of the first unanswered attempt to reach the peer; nil without one.
  static func hasNoPath(_ message: OutgoingMessage, since: Instant?, _ view: NodeView) -> Bool {
    // A link may still count as that of a peer that has left, because any packet on it keeps it alive.
    guard view.peers.has(message.peer) else { return true }
    guard view.ownLinks(of: message.peer).isEmpty else { return false }
    return since.map { $0.duration(to: view.now) >= CourierState.patience } ?? false
  }

  /// Selects couriers for a message: up to `CourierState.firstCouriers` at first, then each new neighbour, up to
  /// `CourierState.couriers` in total.
  private static func chosen(
    of couriers: [PeerID], _ round: Round, having before: [PeerID], for recipient: PeerID
  ) -> [PeerID] {
    let others = couriers.filter { $0 != recipient && !before.contains($0) }
    let room = CourierState.firstCouriers - before.count
    if room > 0 { return Array(others.prefix(room)) }
    return Array(others.filter { round.newcomers.contains($0) }.prefix(max(0, CourierState.couriers - before.count)))
  }

  /// Deposits a message.
  ///
  /// - Parameter key: this node's key.
  mutating func deposit(
    _ message: OutgoingMessage, _ round: Round, from key: X25519.PrivateKey, _ view: NodeView,
    randomFrom random: inout some RandomSource
  ) -> [Intent] {
    let pieces = message.pieces.filter { !$0.isDelivered }
    // A part of a message is useless, so a courier needs capacity for all fragments.
    let able = round.couriers.filter { places(at: $0, view) >= pieces.count }
    let chosen = Self.chosen(of: able, round, having: message.couriers, for: message.peer)
    guard !chosen.isEmpty, message.pieces.count <= CourierState.pieces,
      let recipient = message.noiseKey ?? view.peers.noiseKey(of: message.peer)
    else { return [] }
    var envelopes: [CourierEnvelope] = []
    for piece in pieces {
      guard let envelope = envelope(of: piece, for: recipient, from: key, message, view, randomFrom: &random) else {
        return []
      }
      envelopes.append(envelope)
    }
    var intents: [Intent] = []
    for peer in chosen {
      let links = view.links.links(to: peer)
      guard !links.isEmpty else { continue }
      for (envelope, piece) in zip(envelopes, pieces) {
        intents.append(.sendEnvelope(envelope, to: peer, over: links))
        desk.books.give(piece.id, to: peer, until: envelope.expiry)
      }
      intents.append(.count(\.courier.deposited, by: UInt64(envelopes.count)))
    }
    return intents + [.deposited(message.number, with: chosen, key: recipient)]
  }

  /// Returns the envelope of a fragment of a message. All couriers get the same envelope, so that they can detect
  /// copies.
  private mutating func envelope(
    of piece: OutgoingMessage.Piece, for recipient: X25519.PublicKey, from key: X25519.PrivateKey,
    _ message: OutgoingMessage, _ view: NodeView, randomFrom random: inout some RandomSource
  ) -> CourierEnvelope? {
    if let envelope = desk.envelope(of: piece.id) { return envelope.expiry > view.time ? envelope : nil }
    let expiry = message.createdAt &+ CourierEnvelope.lifetime
    guard expiry > view.time, let body = try? PrivateMessage(id: piece.id, text: piece.text),
      let envelope = try? CourierEnvelope(
        sealing: .privateMessage(body), for: recipient, from: key, at: view.time, expiry: expiry, randomFrom: &random)
    else { return nil }
    desk.remember(envelope, of: piece.id)
    return envelope
  }

  // MARK: Receipts

  /// Queues a receipt for a courier if a courier delivered the message.
  mutating func entrust(_ receipt: NoisePayload, to peer: PeerID, at now: Instant, time: UInt64) {
    let isEntrusted =
      switch receipt {
      case .delivered(let id): desk.entrust(ReceivedMessage(sender: peer, id: id), isRead: false, at: time)
      case .read(let id): desk.entrust(ReceivedMessage(sender: peer, id: id), isRead: true, at: time)
      default: false
      }
    if isEntrusted { desk.due = now }
  }

  /// Sends the queued receipts for a peer that now has a session.
  mutating func sendReceipts(to peer: PeerID) -> [Intent] {
    desk.takeReceipts(for: peer).map { .seal($0.payload, for: peer) }
  }

  /// Deposits the receipts that have no other path.
  ///
  /// - Parameter key: this node's key.
  mutating func depositReceipts(
    _ round: Round, from key: X25519.PrivateKey, _ view: NodeView, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    var intents: [Intent] = []
    for place in desk.receipts.indices {
      let receipt = desk.receipts[place]
      // One slot stays free for a message of this node. Otherwise receipts for messages from invented identities could
      // fill the courier.
      let able = round.couriers.filter { places(at: $0, view) > CourierState.letterPlaces }
      let chosen = Self.chosen(of: able, round, having: receipt.couriers, for: receipt.peer)
      guard view.links.links(to: receipt.peer).isEmpty || !view.peers.has(receipt.peer), !chosen.isEmpty,
        let envelope = receipt.envelope
          ?? (try? CourierEnvelope(
            sealing: receipt.payload, for: receipt.key, from: key, at: view.time,
            expiry: receipt.createdAt &+ CourierEnvelope.lifetime, randomFrom: &random))
      else { continue }
      for peer in chosen {
        intents.append(.sendEnvelope(envelope, to: peer, over: view.links.links(to: peer)))
        desk.books.give(receipt.message, to: peer, until: envelope.expiry)
      }
      intents.append(.count(\.courier.deposited, by: UInt64(chosen.count)))
      desk.change(place) {
        $0.envelope = envelope
        $0.couriers += chosen
      }
    }
    return intents
  }
}
