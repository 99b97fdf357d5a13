import Common
import Crypto

/// Own letters, which neighbours carry to those who are not there.
extension MeshEngine {
  /// A neighbour has come: letters that wait may go with it.
  mutating func meetCourier(_ peer: PeerID, _ turn: Turn) {
    // While this node may say nothing, many come and go: those that are not here any more get nothing.
    courier.newcomers.formIntersection(neighbours)
    courier.newcomers.insert(peer)
    courier.due = turn.now
  }

  /// Gives the letters away that have no other way to their recipients.
  mutating func depositWhatIsDue(_ turn: inout Turn) {
    courier.due = nil
    let newcomers = courier.newcomers
    courier.newcomers = []
    guard !configuration.isRelayOnly else { return }
    let couriers = findCouriers()
    guard !couriers.isEmpty else { return }
    for message in outbox.stranded(where: { hasNoPath($0, since: $1, turn) }) {
      deposit(message, with: couriers, newcomers, &turn)
    }
    depositReceipts(with: couriers, newcomers, &turn)
  }

  /// A peer has said, in this run or an earlier one, whether this node is a favourite of its.
  public mutating func favour(by peer: PeerID, _ isFavourite: Bool) {
    favouredBy.remove(peer)
    guard isFavourite else { return }
    // Anybody may say so in many names: of those who are not near one goes.
    if favouredBy.count >= PeerTable.peerLimit, let other = favouredBy.first(where: { !table.has($0) }) {
      favouredBy.remove(other)
    }
    if favouredBy.count < PeerTable.peerLimit { favouredBy.insert(peer) }
  }

  /// The places that a courier has left for this node, as far as that can be told.
  func places(at peer: PeerID, _ turn: Turn) -> Int {
    let usual = table[peer]?.courierPlaces.map { Int($0) } ?? CourierBag.usualPlaces
    let all = favouredBy.contains(peer) ? CourierBag.favouritePlaces(usual) : usual
    return all - courier.books.envelopes(with: peer, at: turn.time) - courier.bag.copied(to: peer)
  }

  /// The neighbours whose announces show that they carry letters, favourites first, and else in any order: an ID that anybody may
  /// choose says nothing.
  private mutating func findCouriers() -> [PeerID] {
    let able = neighbours.subtracting(blocked).filter { table[$0]?.capabilities.showCourier == true }.sorted()
    let drawn = able.map { peer in
      (peer: peer, rank: favourites.contains(peer) ? 0 : 1, lot: Random.number(0...(.max - 1), &random))
    }
    return drawn.sorted { ($0.rank, $0.lot) < ($1.rank, $1.lot) }.map(\.peer)
  }

  /// Whether what this node sends to the peer itself does not seem to arrive.
  private func hasNoPath(_ message: OutgoingMessage, since: Instant?, _ turn: Turn) -> Bool {
    // A link may still pass for that of a peer who has gone, for what anybody says there keeps it.
    guard table.has(message.peer) else { return true }
    guard ownLink(of: message.peer) == nil else { return false }
    return since.map { $0.duration(to: turn.now) >= CourierDesk.patience } ?? false
  }

  /// The couriers that get a letter now: three at first, and later each that comes.
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
    // Of half a letter nobody has anything.
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

  /// The envelope with a piece of a message: the same one for all couriers, so that two that meet know it.
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

  /// A receipt whose recipient is not there goes the way that the message came.
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
      // One place stays free for a letter of this node: receipts for letters in many made-up names would fill them all.
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
