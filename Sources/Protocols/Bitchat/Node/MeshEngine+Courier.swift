import Common
import Crypto

/// Handling of courier envelopes of other peers. Facts: bitchat.md section 8.5.
extension MeshEngine {
  /// Number of envelopes that this node carries for others.
  public var carried: Int { courier.bag.count }

  /// Restores an envelope of an earlier run.
  ///
  /// - Returns: false if there is no capacity for it.
  @discardableResult
  public mutating func restore(_ carried: CarriedEnvelope) -> Bool {
    isDueKnown = false
    return courier.bag.restore(carried)
  }

  /// Whether a packet is an envelope. Dialect S uses the same type for chat.
  func isEnvelope(_ packet: Packet) -> Bool {
    PacketMeaning(type: packet.type, payload: packet.payload) != .seedMessage
  }

  /// Opens an envelope for this node, or stores one to carry it.
  ///
  /// - Returns: whether copies of the packet can be ignored.
  mutating func hear(envelope packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard !configuration.isRelayOnly else { return true }
    guard !blocked.contains(packet.sender) else {
      counters.blocked += 1
      return true
    }
    guard let envelope = try? CourierEnvelope(reading: packet.payload) else {
      counters.courier.malformed += 1
      return true
    }
    guard envelope.expiry > turn.time else {
      counters.courier.tooLate += 1
      return true
    }
    guard envelope.expiry - turn.time <= CourierEnvelope.lifetime + CourierEnvelope.slack else {
      counters.courier.tooLong += 1
      return true
    }
    if envelope.copies > CourierEnvelope.mostCopies { counters.courier.tooManyCopies += 1 }
    let isOwn = CourierTag.near(turn.time, for: identity.noiseKey.publicKey).contains(envelope.tag)
    return isOwn ? open(envelope, arrival, &turn) : carry(envelope, packet, arrival, &turn)
  }

  // MARK: For this node

  /// Opens an envelope. The Noise message authenticates its author, independent of the courier.
  private mutating func open(_ envelope: CourierEnvelope, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    guard budget.takeSignature(on: arrival.link, isKnownAnnounce: false, at: turn.now) else {
      counters.tooManySignatures += 1
      return false
    }
    // Opening takes three curve multiplications more than checking a signature.
    budget.spend(2, on: arrival.link)
    let opened: (payload: NoisePayload, sender: X25519.PublicKey)
    do throws(CourierEnvelope.OpeningError) {
      opened = try envelope.open(with: identity.noiseKey)
    } catch {
      switch error {
      case .prekey: counters.courier.forPrekeys += 1
      case .notOpened: counters.courier.notOpened += 1
      case .unreadable(.unknownType): counters.unknownPayloads += 1
      case .unreadable: counters.unreadable += 1
      }
      return true
    }
    let peer = PeerID(noiseKey: opened.sender)
    guard peer != identity.id, !blocked.contains(peer) else {
      counters.blocked += 1
      return true
    }
    counters.courier.opened += 1
    switch opened.payload {
    case .privateMessage(let message):
      courier.bring(ReceivedMessage(sender: peer, id: message.id), from: opened.sender, at: turn.time)
      hear(message, from: peer, &turn)
    case .delivered(let id), .read(let id):
      if let bearer = links[arrival.link]?.peer { courier.books.answered(id, by: bearer) }
      let isRead = if case .read = opened.payload { true } else { false }
      note(id, from: peer, isRead: isRead, &turn)
    // Other payloads are valid only in a session.
    default: counters.unknownPayloads += 1
    }
    return true
  }

  // MARK: Envelopes for other peers

  /// Stores an envelope of a neighbour that has signed the packet, and rejects all others.
  private mutating func carry(
    _ envelope: CourierEnvelope, _ packet: Packet, _ arrival: Arrival, _ turn: inout Turn
  ) -> Bool {
    guard arrival.view.timeToLive >= Limits.timeToLive, !arrival.isAnswer,
      links[arrival.link]?.peer == packet.sender, let depositor = table[packet.sender]
    else {
      counters.courier.notOfNeighbours += 1
      return true
    }
    guard checkSignature(arrival, packet, depositor.signingKey, isKnownAnnounce: false, turn) else {
      counters.courier.notOfNeighbours += 1
      return false
    }
    let carried = CarriedEnvelope(
      envelope: envelope, depositor: depositor.id, isOfFavourite: favourites.contains(depositor.id),
      storedAt: turn.time, via: mark(of: arrival.link))
    do throws(CourierBag.Refusal) {
      let taken = try courier.bag.add(carried) { [table] in table.knownFor($0) }
      if taken.isNew { counters.courier.taken += 1 } else { counters.courier.repeated += 1 }
      counters.courier.droppedForOthers += UInt64(taken.dropped.count)
      drop(taken.dropped, &turn)
      if taken.isChanged, let kept = courier.bag.envelopes[carried.id] { turn.actions.append(.keep(.carried(kept))) }
    } catch {
      counters.courier.count(error)
    }
    return true
  }

  private func drop(_ ids: [CourierID], _ turn: inout Turn) {
    turn.actions += ids.map { .keep(.carriedNoMore($0)) }
  }

  /// Sends envelopes to a peer that has just announced itself, and copies to a neighbour that can carry them.
  mutating func deliverMail(to peer: Peer, _ arrival: Arrival, _ turn: inout Turn) {
    // An announce in a sync answer does not show where the peer is.
    guard canSend, !arrival.isAnswer, !courier.bag.isEmpty, !blocked.contains(peer.id) else { return }
    let tags = CourierTag.near(turn.time, for: peer.noiseKey)
    let links = links(to: peer.id)
    var batch = Batch()
    for carried in courier.bag.addressed(to: tags) where carried.envelope.expiry > turn.time {
      let isLate = carried.handed >= CourierDesk.handOvers
      let pause =
        isLate ? CourierDesk.latePause : links.isEmpty ? CourierDesk.remotePause : CourierDesk.directPause
      guard carried.sentAt.map({ $0.duration(to: turn.now) >= pause }) ?? true, batch.take(carried) else { continue }
      hand(carried, to: peer.id, over: links, &turn)
    }
    guard !links.isEmpty, peer.capabilities.showCourier else { return }
    // A courier without capacity loses the envelope and half of the copies.
    var places = places(at: peer.id, turn)
    for carried in courier.bag.copies(for: peer.id, tags: tags) where carried.envelope.expiry > turn.time {
      guard places > 0, batch.take(carried) else { return }
      places -= 1
      copy(carried, to: peer.id, over: links, &turn)
    }
  }

  /// Capacity for hand-overs after one announce.
  private struct Batch {
    var count = CourierDesk.batchCount
    var bytes = CourierDesk.batchBytes

    mutating func take(_ carried: CarriedEnvelope) -> Bool {
      guard count > 0, bytes > 0 else { return false }
      count -= 1
      bytes -= carried.size
      return true
    }
  }

  /// Sends an envelope to its recipient over its own links and those that its announces arrive over, else over all
  /// links. The envelope is stored until it expires, because no receipt confirms it.
  private mutating func hand(
    _ carried: CarriedEnvelope, to peer: PeerID, over links: [LinkID], _ turn: inout Turn
  ) {
    let others = ways.others(to: peer, besides: links, at: turn.now).map(\.link)
    let targets = links.isEmpty || isDoubtful(peer) ? targets() : links + others
    send(carried.envelope.with(copies: 1), to: peer, over: targets, &turn)
    courier.bag.change(carried.id) {
      ($0.sentAt, $0.sentOver) = (turn.now, Set(targets))
      if !links.isEmpty { $0.handed += 1 }
    }
    if links.isEmpty {
      counters.courier.sentOverHops += 1
    } else if carried.handed == 0 {
      counters.courier.handedOver += 1
    }
  }

  /// Sends envelopes over a new link to their recipient if they were sent over other links within
  /// `CourierDesk.directPause`.
  mutating func handAgain(to peer: PeerID, over link: LinkID, _ turn: inout Turn) {
    guard canSend, !courier.bag.isEmpty, !blocked.contains(peer), let known = table[peer] else { return }
    var batch = Batch()
    let tags = CourierTag.near(turn.time, for: known.noiseKey)
    for carried in courier.bag.addressed(to: tags) where carried.envelope.expiry > turn.time {
      guard let sentAt = carried.sentAt, sentAt.duration(to: turn.now) < CourierDesk.directPause,
        carried.sentOver.count < CourierDesk.ways, !carried.sentOver.contains(link), batch.take(carried)
      else { continue }
      send(carried.envelope.with(copies: 1), to: peer, over: [link], &turn)
      courier.bag.change(carried.id) { $0.sentOver.insert(link) }
    }
  }

  /// Gives half of the copies to another courier.
  private mutating func copy(_ carried: CarriedEnvelope, to peer: PeerID, over links: [LinkID], _ turn: inout Turn) {
    let given = carried.envelope.copies / 2
    send(carried.envelope.with(copies: given), to: peer, over: links, &turn)
    counters.courier.copied += 1
    courier.bag.change(carried.id) {
      $0.envelope.copies -= given
      $0.givenTo.append(peer)
    }
    if let kept = courier.bag.envelopes[carried.id] { turn.actions.append(.keep(.carried(kept))) }
  }

  mutating func send(_ envelope: CourierEnvelope, to peer: PeerID, over links: [LinkID], _ turn: inout Turn) {
    let packet = Packet(
      type: .courier, timestamp: timestamp(turn), sender: identity.id, recipient: peer, payload: envelope.bytes)
    transmit(packet, as: .own, to: links, &turn)
  }

  // MARK: Time

  /// Next time at which the courier has work; nil if there is none.
  var courierDeadline: Instant? {
    [courier.due, courier.ages ? courier.ageAt : nil].compactMap(\.self).min()
  }

  /// Removes expired items, and deposits own messages with couriers.
  mutating func courierWhatIsDue(_ turn: inout Turn) {
    if courier.ages, courier.ageAt <= turn.now {
      courier.ageAt = turn.now.advanced(by: CourierDesk.ageing)
      let old = courier.bag.expire(at: turn.time)
      counters.courier.expired += UInt64(old.count)
      drop(old, &turn)
      courier.age(at: turn.time)
    }
    if let due = courier.due, due <= turn.now { depositWhatIsDue(&turn) }
  }
}
