import BitchatWire
import Common
import Crypto

/// Courier state of this node: the store with envelopes of others, and own messages that couriers may carry.
struct CourierState: Sendable {
  /// Number of couriers that get a message when it is first deposited.
  static let firstCouriers = 3
  /// Number of couriers that get a message in total.
  static let couriers = 8
  /// Maximum fragments of a text that is deposited. A phone accepts five envelopes per favourite.
  static let pieces = 5
  /// Slots at a courier that receipts must leave free for this node's messages.
  static let letterPlaces = 1
  /// Maximum receipts that wait for a courier; the oldest are dropped first.
  static let receiptLimit = 200
  /// Maximum sealed envelopes of own messages that are remembered; the oldest are dropped first.
  static let sealedLimit = 256
  /// Maximum remembered messages brought by couriers. Their senders get receipts through couriers too.
  static let broughtLimit = 1000
  /// Time in which a peer that is probably in range must answer before couriers are used.
  static let patience = Duration.seconds(30)
  /// Maximum links on which an envelope is sent to one recipient within `directPause`. Links count on which the
  /// recipient's announces arrive.
  static let ways = 16
  /// Minimum time until an envelope is sent to its recipient again over a direct link.
  static let directPause = Duration.seconds(60)
  /// Minimum time until an envelope is sent to its recipient again over several hops.
  static let remotePause = Duration.seconds(300)
  /// Number of hand-overs over a recipient's own link after which an envelope is sent only once per `latePause`.
  ///
  /// A link that breaks may lose the envelope, and a replayed announce makes another peer's link look like the
  /// recipient's. The recipient shows a repeated message once.
  static let handOvers = 3
  static let latePause = Duration.seconds(3600)
  /// Maximum envelopes that are handed over after one announce, so that they fit into the queue of a link. The others
  /// are handed over after the next announces.
  static let batchCount = 32
  /// Maximum bytes of envelopes that are handed over after one announce.
  static let batchBytes = 24 << 10
  /// Interval at which expired envelopes, receipts and records are removed.
  static let ageing = Duration.seconds(60)

  /// Confirmation that a message brought by a courier was delivered or read.
  struct Receipt: Sendable {
    let peer: PeerID
    let key: X25519.PublicKey
    let message: MessageID
    let isRead: Bool
    /// Time of the receipt, in milliseconds since 1970.
    let createdAt: UInt64
    var couriers: [PeerID] = []
    var envelope: CourierEnvelope?

    var payload: NoisePayload { isRead ? .read(message) : .delivered(message) }
  }

  var bag: CourierStore
  var books = CourierIndex()
  private(set) var receipts: [Receipt] = []
  private var sealed: [MessageID: CourierEnvelope] = [:]
  private var sealedOrder: [MessageID] = []
  private var brought: [ReceivedMessage: (key: X25519.PublicKey, at: UInt64)] = [:]
  private var broughtOrder: [ReceivedMessage] = []
  /// Time at which own messages are deposited next, if a courier is in range. Nil while nothing has changed.
  var due: Instant?
  /// Neighbours that have arrived since the last deposit.
  var newcomers: Set<PeerID> = []
  /// Time of the next removal of expired items.
  var ageAt = Instant.zero

  init(limit: Int) {
    bag = CourierStore(limit: limit)
  }

  /// Whether the state has items that can expire.
  var ages: Bool { !bag.isEmpty || !receipts.isEmpty || !brought.isEmpty || books.count > 0 }

  /// Item counts, for tests of memory.
  var held: [Int] {
    [bag.envelopes.count, receipts.count, sealed.count, brought.count, newcomers.count, books.count]
  }

  /// Number of envelopes per depositor, as announced: what this node carries for a depositor that is not a favourite.
  /// Nil if it equals the apps' value, which is not announced.
  var saidPlaces: UInt8? {
    let places = bag.limit == 0 ? 0 : bag.limit(isFavourite: false)
    return places == CourierStore.usualPlaces ? nil : UInt8(min(places, 255))
  }

  // MARK: Own messages

  func envelope(of message: MessageID) -> CourierEnvelope? { sealed[message] }

  mutating func remember(_ envelope: CourierEnvelope, of message: MessageID) {
    guard sealed.updateValue(envelope, forKey: message) == nil else { return }
    sealedOrder.append(message)
    if sealedOrder.count > Self.sealedLimit { sealed[sealedOrder.removeFirst()] = nil }
  }

  mutating func forget(_ message: MessageID) {
    guard sealed.removeValue(forKey: message) != nil else { return }
    sealedOrder.removeAll { $0 == message }
  }

  // MARK: Receipts

  /// Records that a courier has brought a message, so that its receipt also goes by courier.
  mutating func bring(_ message: ReceivedMessage, from key: X25519.PublicKey, at time: UInt64) {
    guard brought.updateValue((key, time), forKey: message) == nil else { return }
    broughtOrder.append(message)
    if broughtOrder.count > Self.broughtLimit { brought[broughtOrder.removeFirst()] = nil }
  }

  /// Queues a receipt for a courier if one has brought the message. Returns false if a receipt of the same or a higher
  /// state is queued.
  mutating func entrust(_ message: ReceivedMessage, isRead: Bool, at time: UInt64) -> Bool {
    guard let key = brought[message]?.key else { return false }
    let place = receipts.firstIndex { $0.peer == message.sender && $0.message == message.id }
    if let place, receipts[place].isRead || !isRead { return false }
    if let place { receipts.remove(at: place) }
    receipts.append(
      Receipt(peer: message.sender, key: key, message: message.id, isRead: isRead, createdAt: time))
    if receipts.count > Self.receiptLimit { receipts.removeFirst() }
    return true
  }

  mutating func change(_ place: Int, _ body: (inout Receipt) -> Void) { body(&receipts[place]) }

  /// Removes and returns the receipts for a peer that can now be reached directly.
  mutating func takeReceipts(for peer: PeerID) -> [Receipt] {
    let taken = receipts.filter { $0.peer == peer }
    receipts.removeAll { $0.peer == peer }
    return taken
  }

  /// Removes a forgotten peer's receipts, the messages that couriers brought from it, and its mark as new neighbour.
  mutating func forget(_ peer: PeerID) {
    receipts.removeAll { $0.peer == peer }
    broughtOrder.removeAll { $0.sender == peer }
    brought = brought.filter { $0.key.sender != peer }
    newcomers.remove(peer)
  }

  /// Removes receipts and records of messages that are older than one day.
  mutating func age(at time: UInt64) {
    receipts.removeAll { $0.createdAt &+ CourierEnvelope.lifetime <= time }
    books.age(at: time)
    guard brought.contains(where: { $0.value.at &+ CourierEnvelope.lifetime <= time }) else { return }
    brought = brought.filter { $0.value.at &+ CourierEnvelope.lifetime > time }
    broughtOrder.removeAll { brought[$0] == nil }
  }
}

/// Index of this node's envelopes at couriers. A courier does not report a refusal, so no envelope is offered to it
/// twice.
///
/// An entry ends when the envelope expires, or when the courier itself brings the answer. An answer that arrives
/// another way removes nothing from the courier's store.
struct CourierIndex: Sendable {
  private struct Entry: Sendable {
    let message: MessageID
    /// Expiry of the envelope, in milliseconds since 1970.
    let expiry: UInt64
  }

  private var entries: [PeerID: [Entry]] = [:]

  /// Number of couriers that carry envelopes of this node.
  var count: Int { entries.count }

  /// Number of this node's envelopes at a courier that have not expired.
  func envelopes(with courier: PeerID, at time: UInt64) -> Int {
    entries[courier]?.count { $0.expiry > time } ?? 0
  }

  mutating func give(_ message: MessageID, to courier: PeerID, until expiry: UInt64) {
    entries[courier, default: []].append(Entry(message: message, expiry: expiry))
  }

  /// Removes the entry of a message whose answer the courier has brought.
  mutating func answered(_ message: MessageID, by courier: PeerID) {
    entries[courier]?.removeAll { $0.message == message }
    if entries[courier]?.isEmpty == true { entries[courier] = nil }
  }

  /// Removes entries of envelopes that have expired.
  mutating func age(at time: UInt64) {
    for courier in entries.keys {
      entries[courier]?.removeAll { $0.expiry <= time }
      if entries[courier]?.isEmpty == true { entries[courier] = nil }
    }
  }
}
