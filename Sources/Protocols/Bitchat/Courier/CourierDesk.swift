import Common
import Crypto

/// What has to do with the courier at this node: the bag with the mail of others, and its own letters that others may carry.
struct CourierDesk: Sendable {
  /// So many peers get a letter when it is first given away, and so many in all, as they come by.
  static let firstCouriers = 3
  static let couriers = 8
  /// A text that is cut into more pieces is not given to couriers: a phone takes five envelopes at most, of its favourites.
  static let pieces = 5
  /// So many places at a courier stay free for letters when receipts are given away.
  static let letterPlaces = 1
  /// Receipts that wait for a courier, and envelopes of own messages that are remembered: the oldest go.
  static let receiptLimit = 200
  static let sealedLimit = 256
  /// Messages that a courier has brought, whose senders get their receipts the same way.
  static let broughtLimit = 1000
  /// So long a peer that seems to be near has to answer.
  static let patience = Duration.seconds(30)
  /// Maximum links that an envelope is sent over within `directPause` because its recipient's announces arrive over them.
  static let ways = 16
  /// From one sending to a recipient to the next, over a link of its own and over hops.
  static let directPause = Duration.seconds(60)
  static let remotePause = Duration.seconds(300)
  /// After so many hand-overs to a recipient over a link of its own an envelope is handed over once an hour: a link that is cut may
  /// swallow it, and an announce that somebody repeats makes that somebody's link pass for the recipient's. The recipient tells a
  /// message once.
  static let handOvers = 3
  static let latePause = Duration.seconds(3600)
  /// What is handed over at one announce, so that the queue of a link holds it. The rest follows at the next one.
  static let batchCount = 32
  static let batchBytes = 24 << 10
  /// How often what is too old is thrown away.
  static let ageing = Duration.seconds(60)

  /// That a message which a courier has brought was delivered or read.
  struct Receipt: Sendable {
    let peer: PeerID
    let key: X25519.PublicKey
    let message: MessageID
    let isRead: Bool
    /// Milliseconds since 1970.
    let createdAt: UInt64
    var couriers: [PeerID] = []
    var envelope: CourierEnvelope?

    var payload: NoisePayload { isRead ? .read(message) : .delivered(message) }
  }

  var bag: CourierBag
  var books = CourierBooks()
  private(set) var receipts: [Receipt] = []
  private var sealed: [MessageID: CourierEnvelope] = [:]
  private var sealedOrder: [MessageID] = []
  private var brought: [ReceivedMessage: (key: X25519.PublicKey, at: UInt64)] = [:]
  private var broughtOrder: [ReceivedMessage] = []
  /// When own letters are given away, if there is somebody; nil while nothing has changed.
  var due: Instant?
  /// Neighbours that have come since letters were given away last.
  var newcomers: Set<PeerID> = []
  /// When what is too old goes next.
  var ageAt = Instant.zero

  init(limit: Int) {
    bag = CourierBag(limit: limit)
  }

  /// Whether there is something that becomes too old.
  var ages: Bool { !bag.isEmpty || !receipts.isEmpty || !brought.isEmpty || books.count > 0 }

  /// Numbers of what is held, for tests of memory.
  var held: [Int] {
    [bag.envelopes.count, receipts.count, sealed.count, brought.count, newcomers.count, books.count]
  }

  /// How many letters of one peer that is no favourite this node carries, for its announces; nil where that is as many as the apps carry.
  var saidPlaces: UInt8? {
    let places = bag.limit == 0 ? 0 : bag.limit(isFavourite: false)
    return places == CourierBag.usualPlaces ? nil : UInt8(min(places, 255))
  }

  // MARK: Own letters

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

  /// A courier has brought a message.
  mutating func bring(_ message: ReceivedMessage, from key: X25519.PublicKey, at time: UInt64) {
    guard brought.updateValue((key, time), forKey: message) == nil else { return }
    broughtOrder.append(message)
    if broughtOrder.count > Self.broughtLimit { brought[broughtOrder.removeFirst()] = nil }
  }

  /// Has a receipt wait for a courier, if one has brought the message. A receipt that was given away already is not made again.
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

  /// The receipts for a peer that can be told itself now.
  mutating func takeReceipts(for peer: PeerID) -> [Receipt] {
    let taken = receipts.filter { $0.peer == peer }
    receipts.removeAll { $0.peer == peer }
    return taken
  }

  /// Nothing of a peer is to be remembered.
  mutating func forget(_ peer: PeerID) {
    receipts.removeAll { $0.peer == peer }
    broughtOrder.removeAll { $0.sender == peer }
    brought = brought.filter { $0.key.sender != peer }
    newcomers.remove(peer)
  }

  /// Forgets what is a day old.
  mutating func age(at time: UInt64) {
    receipts.removeAll { $0.createdAt &+ CourierEnvelope.lifetime <= time }
    books.age(at: time)
    guard brought.contains(where: { $0.value.at &+ CourierEnvelope.lifetime <= time }) else { return }
    brought = brought.filter { $0.value.at &+ CourierEnvelope.lifetime > time }
    broughtOrder.removeAll { brought[$0] == nil }
  }
}
