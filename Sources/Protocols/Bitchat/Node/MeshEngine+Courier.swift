import BitchatWire
import Common
import Crypto

/// Courier envelopes. Facts: bitchat.md section 8.5.
extension MeshEngine {
  /// Number of envelopes that this node carries for others.
  public var carried: Int { courier.carried }

  /// Restores an envelope of an earlier run.
  ///
  /// - Returns: false if there is no capacity for it.
  @discardableResult
  public mutating func restore(_ carried: CarriedEnvelope) -> Bool {
    isDueKnown = false
    return courier.restore(carried)
  }

  /// Records whether a peer reports this node as its favourite, in this run or an earlier one.
  public mutating func favour(by peer: PeerID, _ isFavourite: Bool) {
    courier.favour(by: peer, isFavourite, neighbourhood.peers)
  }

  /// Opens an envelope for this node, or stores one to carry it.
  ///
  /// - Returns: whether copies of the packet can be ignored.
  mutating func handleEnvelope(_ packet: Packet, _ arrival: Arrival, _ turn: inout Turn) -> Bool {
    switch courier.receive(packet, arrival, for: identity.noiseKey.publicKey, view(turn)) {
    case .ignored(let intents): perform(intents, &turn)
    case .own(let envelope, let intents):
      perform(intents, &turn)
      guard !isRefused(gate.takeOpening(on: arrival.link, at: turn.now)) else { return false }
      perform(courier.open(envelope, from: arrival.link, with: identity.noiseKey, view(turn)), &turn)
    case .foreign(let envelope, let depositor, let intents):
      perform(intents, &turn)
      guard checkSignature(arrival, packet, depositor.signingKey, isKnownAnnounce: false, turn) else {
        counters.courier.notOfNeighbours += 1
        return false
      }
      let isOfFavourite = favourites.contains(depositor.id)
      let mark = mark(of: arrival.link)
      perform(courier.carry(envelope, of: depositor.id, isOfFavourite: isOfFavourite, via: mark, view(turn)), &turn)
    }
    return true
  }

  mutating func send(_ envelope: CourierEnvelope, to peer: PeerID, over links: [LinkID], _ turn: inout Turn) {
    let packet = Packet(
      type: .courier, timestamp: timestamp(turn), sender: identity.id, recipient: peer, payload: envelope.bytes)
    transmit(packet, as: .own, to: links, &turn)
  }

  /// Records a new neighbour, so that waiting messages are deposited with it.
  mutating func meetCourier(_ peer: PeerID, _ turn: Turn) { courier.meet(peer, neighbours, at: turn.now) }

  /// Removes expired items, and deposits the messages and receipts that have no other path to their recipients.
  mutating func courierWhatIsDue(_ turn: inout Turn) {
    guard let due = courier.deadline, due <= turn.now else { return }
    perform(courier.expire(view(turn)), &turn)
    guard let round = courier.beginRound(preferring: favourites, view(turn), randomFrom: &random) else { return }
    let view = view(turn)
    for message in messages.outbox.stranded(where: { Courier.hasNoPath($0, since: $1, view) }) {
      perform(courier.deposit(message, round, from: identity.noiseKey, view, randomFrom: &random), &turn)
    }
    perform(courier.depositReceipts(round, from: identity.noiseKey, view, randomFrom: &random), &turn)
  }
}
