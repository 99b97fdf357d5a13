import Common
import Crypto

/// The ID of a message or a receipt in the outbox: 1 to 255 bytes. The owner gives a message the same ID when it hands
/// it over again.
public struct OutboxID: Hashable, Sendable {
  public let text: String

  /// - Throws: `badMessageID`.
  public init(_ text: String) throws(NostrError) {
    guard (1...NostrLimits.messageIDBytes).contains(text.utf8.count) else { throw .badMessageID }
    self.text = text
  }
}

/// A message or a receipt for a contact. This is the durable form too: the owner stores it, and gives it back at the
/// next start.
public struct OutboxEntry: Hashable, Sendable {
  public enum Kind: UInt8, Hashable, Sendable {
    /// A message, which is sent until its receipt arrives.
    case message = 0
    /// Sent until a relay has accepted it.
    case receipt = 1
  }

  public let id: OutboxID
  public let kind: Kind
  public let recipient: NostrKey
  /// The private text, in its final form.
  public let text: String
  /// The time at which a person sent the message.
  public let sentAt: UnixTime
  /// Number of sendings of the message that a relay has accepted.
  public internal(set) var attempts: Int

  /// - Throws: `badLength` for an empty text or one of more than `NostrLimits.contentBytes`.
  public init(
    id: OutboxID, kind: Kind = .message, recipient: NostrKey, text: String, sentAt: UnixTime, attempts: Int = 0
  ) throws(NostrError) {
    guard (1...NostrLimits.contentBytes).contains(text.utf8.count) else { throw .badLength(text.utf8.count) }
    (self.id, self.kind, self.recipient, self.text) = (id, kind, recipient, text)
    (self.sentAt, self.attempts) = (sentAt, attempts)
  }
}

extension OutboxEntry: CustomStringConvertible, CustomReflectable {
  public var description: String { "<private message>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

/// The waiting messages and receipts, and the time at which each is sent next.
///
/// A message is sent until its receipt comes: again after 5 min, 10 min and so on, 8 times within 24 h. A receipt is
/// sent until a relay has accepted it, for 24 h; at most 3 receipts are sent in a second. Facts: bitchat.md sections
/// 8.4 and 11.
struct Outbox: Sendable {
  /// A change of the outbox that the owner stores, or passes on to the user.
  enum Effect: Hashable, Sendable {
    case store(OutboxEntry)
    case erase(OutboxID)
    case accepted(OutboxID)
    case expired(OutboxID)
  }

  private struct Item: Sendable {
    var entry: OutboxEntry
    var next: Instant
    /// Attempts in a row that no relay has accepted.
    var failures = Backoff(from: NostrLimits.publishPause, upTo: NostrLimits.longestPause)
    /// Position in the order in which entries were added.
    let number: UInt64

    var isReceipt: Bool { entry.kind == .receipt }
  }

  /// An event that was sent: its content, the relays that have not answered, and whether one has accepted it.
  private struct Flight: Sendable {
    let id: OutboxID
    var unanswered: Int
    var isAccepted = false
  }

  private var items: [OutboxID: Item] = [:]
  private var receiptCount = 0
  private var messagesOfRecipient: [NostrKey: Int] = [:]
  private var flights: [EventID: Flight] = [:]
  /// IDs of the entries in `flights`. None of these is sent again before its relays have answered.
  private var flying: Set<OutboxID> = []
  private var lastNumber: UInt64 = 0
  private var nextReceipt: Instant?
  private(set) var expired: UInt64 = 0
  /// Receipts that no relay has accepted within 24 h.
  private(set) var droppedReceipts: UInt64 = 0

  /// All messages and receipts, oldest first.
  var entries: [OutboxEntry] { items.values.sorted { $0.number < $1.number }.map(\.entry) }

  var count: Int { items.count }

  func holds(_ id: OutboxID) -> Bool { items[id] != nil }

  var recipients: Set<NostrKey> { Set(items.values.map(\.entry.recipient)) }

  /// Adds a message or a receipt that is sent as soon as possible.
  ///
  /// - Throws: `knownMessage`, `outboxFull`.
  mutating func add(_ entry: OutboxEntry, at now: Instant) throws(NostrError) {
    guard items[entry.id] == nil else { throw .knownMessage }
    switch entry.kind {
    case .message:
      guard items.count - receiptCount < NostrLimits.outbox,
        messagesOfRecipient[entry.recipient, default: 0] < NostrLimits.outboxOfOne
      else { throw .outboxFull }
      messagesOfRecipient[entry.recipient, default: 0] += 1
    case .receipt:
      guard receiptCount < NostrLimits.receipts else { throw .outboxFull }
      receiptCount += 1
    }
    lastNumber += 1
    items[entry.id] = Item(entry: entry, next: now, number: lastNumber)
  }

  /// Removes a message or a receipt that the owner has withdrawn.
  mutating func cancel(_ id: OutboxID) -> [Effect] { remove(id) }

  /// Removes all messages and receipts for a recipient who is no longer a contact.
  mutating func forget(_ recipient: NostrKey) -> [Effect] {
    let gone = items.values.filter { $0.entry.recipient == recipient }.sorted { $0.number < $1.number }
    return gone.flatMap { remove($0.entry.id) }
  }

  private mutating func remove(_ id: OutboxID) -> [Effect] {
    guard let item = items.removeValue(forKey: id) else { return [] }
    // The owner may hand over another text with this ID. An answer to the former one must not count for it.
    if flying.remove(id) != nil { flights = flights.filter { $0.value.id != id } }
    if item.isReceipt {
      receiptCount -= 1
    } else {
      let recipient = item.entry.recipient
      messagesOfRecipient[recipient] = messagesOfRecipient[recipient].flatMap { $0 > 1 ? $0 - 1 : nil }
    }
    return [.erase(id)]
  }

  /// Makes every entry that no relay has accepted due at once, because a relay has become available.
  mutating func hurry(at now: Instant) {
    for (id, item) in items where item.entry.attempts == 0 && !flying.contains(id) {
      items[id]?.next = min(item.next, now)
    }
  }

  /// Removes what is older than 24 h, and messages that were accepted 8 times without a receipt.
  mutating func expire(at now: Instant, wall: UnixTime) -> [Effect] {
    let oldest = wall.advanced(by: .zero - NostrLimits.messageLife)
    let gone = items.values.filter { item in
      item.entry.sentAt < oldest || item.entry.attempts >= NostrLimits.messageAttempts && item.next <= now
    }
    return gone.sorted { $0.number < $1.number }.flatMap { item -> [Effect] in
      if item.isReceipt { droppedReceipts += 1 } else { expired += 1 }
      return (item.isReceipt ? [] : [.expired(item.entry.id)]) + remove(item.entry.id)
    }
  }

  /// The next entry that is due; nil if there is none. The owner sends it, and calls this function again until it
  /// returns nil.
  func due(at now: Instant) -> OutboxEntry? {
    let ready = items.values.filter { $0.next <= now && isSendable($0) }
    if nextReceipt ?? now <= now, let receipt = ready.filter(\.isReceipt).min(by: { $0.number < $1.number }) {
      return receipt.entry
    }
    return ready.filter { !$0.isReceipt }.min { ($0.next, $0.number) < ($1.next, $1.number) }?.entry
  }

  /// Whether the entry has attempts left, and all relays have answered its last sending.
  private func isSendable(_ item: Item) -> Bool {
    item.entry.attempts < NostrLimits.messageAttempts && !flying.contains(item.entry.id)
  }

  /// Records that an entry was sent as `event` to this number of relays.
  mutating func sent(_ id: OutboxID, as event: EventID, to relays: Int, at now: Instant) {
    if items[id]?.isReceipt == true { nextReceipt = now.advanced(by: NostrLimits.receiptSpacing) }
    flights[event] = Flight(id: id, unanswered: relays)
    flying.insert(id)
  }

  /// Records that an entry could not be sent, and schedules the next attempt.
  mutating func failed(_ id: OutboxID, at now: Instant) { postpone(id, at: now) }

  /// Handles the answer of a relay, or the report that it will not answer.
  mutating func answered(_ event: EventID, isAccepted: Bool, at now: Instant) -> [Effect] {
    guard var flight = flights[event] else { return [] }
    let isFirst = isAccepted && !flight.isAccepted
    flight.unanswered -= 1
    flight.isAccepted = flight.isAccepted || isAccepted
    flights[event] = flight.unanswered > 0 ? flight : nil
    if flight.unanswered <= 0 { flying.remove(flight.id) }
    if isFirst { return accepted(flight.id, at: now) }
    if flight.unanswered <= 0, !flight.isAccepted { postpone(flight.id, at: now) }
    return []
  }

  /// Records that a relay has accepted an item. A message is sent again if no receipt arrives.
  private mutating func accepted(_ id: OutboxID, at now: Instant) -> [Effect] {
    guard var item = items[id] else { return [] }
    guard !item.isReceipt else { return remove(id) }
    let pause = NostrLimits.receiptWait * (1 << min(item.entry.attempts, NostrLimits.messageAttempts))
    item.entry.attempts += 1
    item.next = now.advanced(by: pause)
    item.failures.reset()
    items[id] = item
    return [.accepted(id), .store(item.entry)]
  }

  private mutating func postpone(_ id: OutboxID, at now: Instant) {
    guard var item = items[id] else { return }
    item.next = now.advanced(by: item.failures.next())
    items[id] = item
  }

  /// Time at which `due` returns items if a relay accepts events; nil if nothing waits.
  var sendDeadline: Instant? {
    items.values.filter { isSendable($0) }
      .map { item in item.isReceipt ? max(item.next, nextReceipt ?? item.next) : item.next }.min()
  }

  /// Time at which `expire` removes items; nil if nothing waits.
  func expiryDeadline(at now: Instant, wall: UnixTime) -> Instant? {
    let old = items.values.map(\.entry.sentAt).min().map { sentAt in
      let end = sentAt.advanced(by: NostrLimits.messageLife + .seconds(1))
      return now.advanced(by: .seconds(max(0, end.seconds.subtractingReportingOverflow(wall.seconds).0)))
    }
    let tried = items.values.filter { $0.entry.attempts >= NostrLimits.messageAttempts }.map(\.next).min()
    return [old, tried].compactMap { $0 }.min()
  }
}
