import BitchatWire
import Common
import Crypto

/// Private messages and receipts for mutual favourites without a path in the mesh, which a separate program carries.
/// Facts: bitchat.md section 11.
///
/// The program stores the packets that it accepts, and repeats them until `uplinkDone`. Each packet is therefore passed
/// only once to each program.
struct Uplink: Sendable {
  /// Maximum packets that were passed to the program and still lack its answer.
  static let offerLimit = 32
  /// Maximum peers whose uplink keys are stored.
  static let keyLimit = 1024
  /// Maximum remembered messages that were received over the uplink.
  static let broughtLimit = 1000
  /// Time until a refused packet is passed to the program again.
  static let pause = Duration.seconds(30)
  /// Maximum age of a received packet, and maximum time by which it may lie in the future, in milliseconds. Senders
  /// give up after a day.
  static let (oldest, latest) = (UInt64(25 * 3_600_000), UInt64(900_000))

  private enum Progress {
    case offered, taken
    /// Withdrawn before the program has answered. The packet is not offered again until that answer arrives, which
    /// would otherwise be taken for the answer to the new offer.
    case withdrawn
  }

  /// This node's key, as text; nil if it never had one.
  private(set) var ownKey: String?
  /// Whether an uplink program is attached and accepts packets.
  private(set) var isOpen = false
  private var keys: [PeerID: String] = [:]
  private var underWay: [UplinkPacket.ID: Progress] = [:]
  /// Messages that were received over the uplink. Their receipts are sent over the uplink, too, unless there is a link
  /// to the sender.
  private var brought = RecentPackets<ReceivedMessage>(limit: Uplink.broughtLimit, lifetime: .seconds(26 * 3600))
  private var due: Instant?
  /// Time of the latest favourite notice of each peer, in milliseconds since 1970: the packet's timestamp if it came
  /// over the uplink, the arrival if it came in the mesh.
  private var noticed: [PeerID: UInt64] = [:]

  /// Next time at which packets may be passed to the program; nil if there is none.
  var deadline: Instant? { isOpen ? due : nil }

  /// Requests a check whether messages have no other path.
  mutating func hurry(at now: Instant) { due = now }

  // MARK: The program and keys

  /// A program has begun to carry packets.
  ///
  /// - Returns: whether the key differs from the previous one. If so, favourites must get the new key.
  mutating func open(_ key: String, at now: Instant) -> Bool {
    let isNew = key != ownKey
    (ownKey, isOpen, underWay, due) = (key, true, [:], now)
    return isNew
  }

  mutating func close() { (isOpen, underWay) = (false, [:]) }

  /// Restores this node's key of an earlier run.
  mutating func restore(ownKey: String) { if !isOpen { self.ownKey = ownKey } }

  /// Records the key of a peer. Packets under way are for the former key, which the peer cannot read any more: they are
  /// withdrawn, and handed over again for the new one.
  ///
  /// - Parameter isFavourite: whether the peer is a favourite. At the limit, keys of other peers are not recorded.
  mutating func note(_ key: String, of peer: PeerID, isFavourite: Bool, at now: Instant) -> [Intent] {
    guard keys[peer] != nil || isFavourite || keys.count < Self.keyLimit else { return [] }
    let former = keys.updateValue(key, forKey: peer)
    due = now
    return former == key ? [] : withdraw(peer)
  }

  func key(of peer: PeerID) -> String? { keys[peer] }

  /// Records the time of a favourite notice that came in the mesh, or in an earlier run.
  ///
  /// - Parameters:
  ///   - time: the time of the notice, in milliseconds since 1970.
  ///   - isFavourite: whether the peer is a favourite. At the limit, times of other peers are not recorded.
  mutating func noteNotice(of peer: PeerID, at time: UInt64, isFavourite: Bool) {
    guard noticed[peer] != nil || isFavourite || noticed.count < Self.keyLimit else { return }
    noticed[peer] = max(time, noticeTime(of: peer, at: time))
  }

  /// The time of a peer's latest favourite notice, in milliseconds since 1970; 0 if it is unknown. A time too far in
  /// the future stems from a wrong clock of this node, and does not count.
  ///
  /// - Parameter time: the current time, in milliseconds since 1970.
  func noticeTime(of peer: PeerID, at time: UInt64) -> UInt64 {
    guard let noticed = noticed[peer], noticed <= time &+ Self.latest else { return 0 }
    return noticed
  }

  /// Withdraws the packets for a forgotten peer.
  mutating func forget(_ peer: PeerID) -> [Intent] {
    (keys[peer], noticed[peer]) = (nil, nil)
    return withdraw(peer)
  }

  /// Withdraws the packets for a peer.
  mutating func withdraw(_ peer: PeerID) -> [Intent] {
    let gone = underWay.filter { $0.key.peer == peer && $0.value != .withdrawn }
    for (id, progress) in gone { underWay[id] = progress == .offered ? .withdrawn : nil }
    return gone.keys.sorted { $0.text < $1.text }.map { .report(.uplinkDone($0)) }
  }

  // MARK: Hand-overs

  /// State of the node that decides about sent and received packets.
  struct Context {
    let view: NodeView
    /// This node's Noise key, by which sealed payloads are opened.
    let noiseKey: X25519.PrivateKey
    /// Whether payloads are sealed for the recipient's Noise key. The apps cannot read them then.
    let isSealing: Bool
    /// Peers that the user of this node has marked as favourites.
    let favourites: Set<PeerID>
    /// Peers that report this node as their favourite.
    let favouredBy: Set<PeerID>
  }

  /// Passes the messages and read receipts that have no other path to the program.
  ///
  /// - Parameters:
  ///   - messages: messages without a path in the mesh.
  ///   - receipts: read receipts that wait, by peer.
  ///   - isWaiting: whether a message still waits for its delivery.
  mutating func handOver(
    _ messages: [OutgoingMessage], _ receipts: [(peer: PeerID, receipts: [MessageID])],
    isWaiting: (MessageID) -> Bool, _ context: Context, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    due = nil
    underWay = underWay.filter { $0.key.kind != .message || isWaiting($0.key.message) }
    var intents: [Intent] = []
    for message in messages where serves(message.peer, context) {
      for piece in message.pieces where !piece.isDelivered {
        guard let body = try? PrivateMessage(id: piece.id, text: piece.text) else { continue }
        let id = UplinkPacket.ID(.message, piece.id, of: message.peer)
        intents += send(.privateMessage(body), as: id, createdAt: message.createdAt, context, randomFrom: &random)
      }
    }
    let view = context.view
    for (peer, receipts) in receipts where view.ownLinks(of: peer).isEmpty {
      for receipt in receipts where !view.peers.has(peer) || hasBrought(receipt, of: peer) {
        intents += sendReceipt(.read(receipt), to: peer, context, randomFrom: &random)
      }
    }
    return intents
  }

  /// Sends a receipt over the uplink if its message was received over the uplink, unless there is a link to the
  /// message's sender. The mesh may count a peer as present for some minutes after it has left.
  mutating func answer(
    _ receipt: NoisePayload, to peer: PeerID, _ context: Context, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    guard let id = receipt.acknowledged, hasBrought(id, of: peer), context.view.ownLinks(of: peer).isEmpty else {
      return []
    }
    return sendReceipt(receipt, to: peer, context, randomFrom: &random)
  }

  /// Passes a receipt for a message to the program, if the sender can be reached over the uplink.
  mutating func sendReceipt(
    _ receipt: NoisePayload, to peer: PeerID, _ context: Context, randomFrom random: inout some RandomSource
  ) -> [Intent] {
    let id: UplinkPacket.ID
    switch receipt {
    case .delivered(let message): id = UplinkPacket.ID(.delivered, message, of: peer)
    case .read(let message): id = UplinkPacket.ID(.read, message, of: peer)
    default: return []
    }
    guard serves(peer, context) else { return [] }
    return send(receipt, as: id, createdAt: context.view.time, context, randomFrom: &random)
  }

  /// Whether packets for a peer may be passed to the program: both are favourites of each other, and the peer has
  /// stated its key.
  private func serves(_ peer: PeerID, _ context: Context) -> Bool {
    isOpen && keys[peer] != nil && context.view.canSend && context.favourites.contains(peer)
      && context.favouredBy.contains(peer) && !context.view.blocked.contains(peer)
  }

  /// Passes a message or a receipt to the program, unless the program already has it.
  ///
  /// - Parameter createdAt: when the message was made, in milliseconds since 1970.
  private mutating func send(
    _ payload: NoisePayload, as id: UplinkPacket.ID, createdAt: UInt64, _ context: Context,
    randomFrom random: inout some RandomSource
  ) -> [Intent] {
    guard let key = keys[id.peer], underWay[id] == nil else { return [] }
    // The answer to an earlier packet makes the next check due.
    guard underWay.values.count(where: { $0 != .taken }) < Self.offerLimit,
      let text = Self.text(of: payload, for: id.peer, context, randomFrom: &random)
    else { return [] }
    underWay[id] = .offered
    let offered = UplinkPacket(id: id, key: key, text: text, createdAt: createdAt)
    return [.count(\.uplink.offered), .report(.uplink(offered))]
  }

  /// The text for a Nostr message; nil if it must be sealed and the peer's Noise key is unknown.
  private static func text(
    of payload: NoisePayload, for peer: PeerID, _ context: Context, randomFrom random: inout some RandomSource
  ) -> String? {
    let view = context.view
    guard context.isSealing else {
      return try? EmbeddedPacket(payload, from: view.own, to: peer, timestamp: view.time).text()
    }
    guard let recipient = view.peers.noiseKey(of: peer) else { return nil }
    return try? EmbeddedPacket(
      sealing: payload, from: context.noiseKey, to: recipient, timestamp: view.time, randomFrom: &random
    ).text()
  }

  /// Handles that the uplink program has stored a packet and is responsible for it.
  mutating func take(_ id: UplinkPacket.ID, at now: Instant) -> [Intent] {
    guard underWay[id] == .offered else {
      endWithdrawn(id, at: now)
      return []
    }
    // Receipts are handed over again if they are due again.
    underWay[id] = id.kind == .message ? .taken : nil
    due = now
    return [.count(\.uplink.taken), .uplinked(id)]
  }

  /// Handles that the uplink program could not store a packet, which is offered again later.
  mutating func refuse(_ id: UplinkPacket.ID, at now: Instant) {
    guard underWay[id] == .offered else { return endWithdrawn(id, at: now) }
    underWay[id] = nil
    due = now.advanced(by: Self.pause)
  }

  /// The program has answered a packet that was withdrawn meanwhile.
  private mutating func endWithdrawn(_ id: UplinkPacket.ID, at now: Instant) {
    guard underWay[id] == .withdrawn else { return }
    underWay[id] = nil
    due = now
  }

  /// Handles the arrival of a message, over the mesh or the uplink. The program need not repeat the message.
  mutating func settle(_ message: MessageID, of peer: PeerID) -> [Intent] {
    let id = UplinkPacket.ID(.message, message, of: peer)
    guard let progress = underWay.removeValue(forKey: id), progress != .withdrawn else { return [] }
    return [.report(.uplinkDone(id))]
  }

  // MARK: Arrivals

  /// Whether a message of a peer was received over the uplink, so that its receipt goes that way, too.
  func hasBrought(_ message: MessageID, of peer: PeerID) -> Bool {
    brought.note(of: ReceivedMessage(sender: peer, id: message)) != nil
  }

  /// Handles a text that was received over the uplink: a message or a receipt of a favourite for this node.
  ///
  /// - Parameter key: the authenticated key of the sender.
  /// - Throws: the reason why the text is dropped.
  mutating func receive(
    _ text: String, from key: String, _ context: Context
  ) throws(UplinkRefusal) -> [Intent] {
    let view = context.view
    guard view.role.converses, view.canSend else { throw .notReady }
    let packet: EmbeddedPacket
    do throws(EmbeddedPacketError) {
      packet = try EmbeddedPacket(text: text)
    } catch {
      throw UplinkRefusal(error)
    }
    guard packet.recipient == view.own else { throw .unexpected }
    let peer = packet.sender
    guard peer != view.own, keys[peer] == key, context.favourites.contains(peer) else { throw .stranger }
    guard !view.blocked.contains(peer) else { throw .blocked }
    guard packet.timestamp &+ Self.oldest >= view.time, packet.timestamp <= view.time &+ Self.latest else {
      throw .date
    }
    let payload: NoisePayload
    do throws(EmbeddedPacketError) {
      payload = try packet.opened(with: context.noiseKey).payload
    } catch {
      throw UplinkRefusal(error)
    }
    switch payload {
    case .privateMessage(let message):
      if FavoriteNotice(text: message.text) != nil { try order(packet.timestamp, of: peer, at: view.time) }
      brought.insert(ReceivedMessage(sender: peer, id: message.id), at: view.now)
      return [.count(\.uplink.received), .handlePrivateMessage(message, from: peer)]
    case .delivered(let id): return [.count(\.uplink.received), .handleReceipt(id, from: peer, isRead: false)]
    case .read(let id): return [.count(\.uplink.received), .handleReceipt(id, from: peer, isRead: true)]
    default: throw .unexpected
    }
  }

  /// Drops a favourite notice that is older than the latest one of its sender, over the uplink or in the mesh. Relays
  /// send stored messages in any order, and after a restart once more: an old notice must not revoke a newer one.
  private mutating func order(_ timestamp: UInt64, of peer: PeerID, at time: UInt64) throws(UplinkRefusal) {
    guard timestamp >= noticeTime(of: peer, at: time) else { throw .date }
    noticed[peer] = timestamp
  }
}
