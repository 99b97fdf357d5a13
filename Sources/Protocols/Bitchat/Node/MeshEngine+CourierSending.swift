import Common
import Crypto

/// Own messages that couriers carry to peers that are out of range.
extension MeshEngine {
  /// Records a new neighbour, so that waiting messages are deposited with it.
  mutating func meetCourier(_ peer: PeerID, _ turn: Turn) {
    // Neighbours may have left while this node was not allowed to send.
    courier.newcomers.formIntersection(neighbours)
    courier.newcomers.insert(peer)
    courier.due = turn.now
  }

  /// Deposits the messages and receipts that have no other path to their recipients.
  mutating func depositWhatIsDue(_ turn: inout Turn) {
    courier.due = nil
    let newcomers = courier.newcomers
    courier.newcomers = []
    guard configuration.role.converses else { return }
    let couriers = findCouriers()
    guard !couriers.isEmpty else { return }
    for message in outbox.stranded(where: { hasNoPath($0, since: $1, turn) }) {
      deposit(message, with: couriers, newcomers, &turn)
    }
    depositReceipts(with: couriers, newcomers, &turn)
  }

  /// Records whether a peer reports this node as its favourite, in this run or an earlier one.
  public mutating func favour(by peer: PeerID, _ isFavourite: Bool) {
    favouredBy.remove(peer)
    guard isFavourite else { return }
    // A sender can report this under any number of names. At the limit, a peer that is not in range is dropped.
    if favouredBy.count >= PeerTable.peerLimit, let other = favouredBy.first(where: { !table.has($0) }) {
      favouredBy.remove(other)
    }
    if favouredBy.count < PeerTable.peerLimit { favouredBy.insert(peer) }
  }

  /// Remaining capacity of a courier for this node, as far as it is known.
  func places(at peer: PeerID, _ turn: Turn) -> Int {
    let usual = table[peer]?.courierPlaces.map { Int($0) } ?? CourierBag.usualPlaces
    let all = favouredBy.contains(peer) ? CourierBag.favouritePlaces(usual) : usual
    return all - courier.books.envelopes(with: peer, at: turn.time) - courier.bag.copied(to: peer)
  }

  /// Neighbours whose announces show that they carry envelopes, favourites first, otherwise in random order. Peers can
  /// choose their ID, so it does not decide.
  private mutating func findCouriers() -> [PeerID] {
    let able = neighbours.subtracting(blocked).filter { table[$0]?.capabilities.showCourier == true }.sorted()
    let drawn = able.map { peer in
      (peer: peer, rank: favourites.contains(peer) ? 0 : 1, lot: Random.number(0...(.max - 1), &random))
    }
    return drawn.sorted { ($0.rank, $0.lot) < ($1.rank, $1.lot) }.map(\.peer)
  }

  /// Whether messages sent to the peer directly seem not to arrive.
  private func hasNoPath(_ message: OutgoingMessage, since: Instant?, _ turn: Turn) -> Bool {
    // A link may still count as that of a peer that has left, because any packet on it keeps it alive.
    guard table.has(message.peer) else { return true }
    guard ownLink(of: message.peer) == nil else { return false }
    return since.map { $0.duration(to: turn.now) >= CourierDesk.patience } ?? false
  }

  /// Selects couriers for a message: up to `CourierDesk.firstCouriers` at first, later each newcomer, up to
  /// `CourierDesk.couriers` in all.
  private static func chosen(
    of couriers: [PeerID], newcomers: Set<PeerID>, having before: [PeerID], for recipient: PeerID
  ) -> [PeerID] {
    let others = couriers.filter { $0 != recipient && !before.contains($0) }
    let room = CourierDesk.firstCouriers - before.count
    if room > 0 { return Array(others.prefix(room)) }
    return Array(others.filter { newcomers.contains($0) }.prefix(max(0, CourierDesk.couriers - before.count)))
  }

  private mutating func deposit(
    _ message: OutgoingMessage, with couriers: [PeerID], _ newcomers: Set<PeerID>, _ turn: inout Turn
  ) {
    let pieces = message.pieces.filter { !$0.isDelivered }
    // A part of a message is useless, so a courier needs capacity for all fragments.
    let able = couriers.filter { places(at: $0, turn) >= pieces.count }
    let chosen = Self.chosen(of: able, newcomers: newcomers, having: message.couriers, for: message.peer)
    guard !chosen.isEmpty, message.pieces.count <= CourierDesk.pieces,
      let key = message.noiseKey ?? table.noiseKey(of: message.peer)
    else { return }
    var envelopes: [CourierEnvelope] = []
    for piece in pieces {
      guard let envelope = envelope(of: piece, for: key, of: message, turn) else { return }
      envelopes.append(envelope)
    }
    for peer in chosen {
      let links = links(to: peer)
      guard !links.isEmpty else { continue }
      for (envelope, piece) in zip(envelopes, pieces) {
        send(envelope, to: peer, over: links, &turn)
        courier.books.give(piece.id, to: peer, until: envelope.expiry)
      }
      counters.courier.deposited += UInt64(envelopes.count)
    }
    guard let deposited = outbox.deposited(message.number, with: chosen, key: key) else { return }
    turn.actions.append(.keep(.outgoing(deposited.message)))
    if let state = deposited.state { turn.actions.append(.progress(message.number, state)) }
  }

  /// Returns the envelope of a fragment of a message. All couriers get the same envelope, so that they can detect
  /// copies.
  private mutating func envelope(
    of piece: OutgoingMessage.Piece, for key: X25519.PublicKey, of message: OutgoingMessage, _ turn: Turn
  ) -> CourierEnvelope? {
    if let envelope = courier.envelope(of: piece.id) { return envelope.expiry > turn.time ? envelope : nil }
    let expiry = message.createdAt &+ CourierEnvelope.lifetime
    guard expiry > turn.time, let body = try? PrivateMessage(id: piece.id, text: piece.text),
      let envelope = try? CourierEnvelope(
        sealing: .privateMessage(body), for: key, from: identity.noiseKey, at: turn.time, expiry: expiry,
        randomFrom: &random)
    else { return nil }
    courier.remember(envelope, of: piece.id)
    return envelope
  }

  // MARK: Receipts

  /// Entrusts a receipt to a courier if a courier has brought the message.
  mutating func entrust(_ receipt: NoisePayload, to peer: PeerID, _ turn: inout Turn) {
    let isEntrusted =
      switch receipt {
      case .delivered(let id):
        courier.entrust(ReceivedMessage(sender: peer, id: id), isRead: false, at: turn.time)
      case .read(let id): courier.entrust(ReceivedMessage(sender: peer, id: id), isRead: true, at: turn.time)
      default: false
      }
    if isEntrusted { courier.due = turn.now }
  }

  private mutating func depositReceipts(
    with couriers: [PeerID], _ newcomers: Set<PeerID>, _ turn: inout Turn
  ) {
    for place in courier.receipts.indices {
      let receipt = courier.receipts[place]
      // One slot stays free for a message of this node. Otherwise receipts for messages from invented identities could
      // fill the courier.
      let able = couriers.filter { places(at: $0, turn) > CourierDesk.letterPlaces }
      let chosen = Self.chosen(of: able, newcomers: newcomers, having: receipt.couriers, for: receipt.peer)
      guard link(to: receipt.peer) == nil || !table.has(receipt.peer), !chosen.isEmpty,
        let envelope = receipt.envelope
          ?? (try? CourierEnvelope(
            sealing: receipt.payload, for: receipt.key, from: identity.noiseKey, at: turn.time,
            expiry: receipt.createdAt &+ CourierEnvelope.lifetime, randomFrom: &random))
      else { continue }
      for peer in chosen {
        send(envelope, to: peer, over: links(to: peer), &turn)
        courier.books.give(receipt.message, to: peer, until: envelope.expiry)
      }
      counters.courier.deposited += UInt64(chosen.count)
      courier.change(place) {
        $0.envelope = envelope
        $0.couriers += chosen
      }
    }
  }
}
