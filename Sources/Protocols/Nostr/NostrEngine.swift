import Common
import Crypto

/// Private messages of contacts, and geohash channels, over Nostr relays. Facts: bitchat.md section 11.
///
/// The engine decides which relays are connected, and what is sent, repeated and accepted. The owner has the proxy, the
/// connections and the store. It carries out the intents, and reports events. Time is passed as arguments.
///
/// The owner calls `handle(.timer, …)` when `deadline` is reached, and reads `deadline` after each call.
public struct NostrEngine: Sendable {
  public struct Configuration: Sendable {
    /// Relays for private messages and geohash channels, 8 at most.
    public var relays: [RelayAddress]
    /// The form of envelopes that are sent.
    public var sends: EnvelopeDialect = .app
    /// The forms of envelopes that are accepted.
    public var accepts: Set<EnvelopeDialect> = [.app]
    /// Geohash channels, 4 at most.
    public var channels: [Geohash] = []
    /// The seed of the keys in geohash channels, 32 bytes; nil: channels are not used.
    public var channelSeed: SecretBytes?
    /// The name in geohash channels; nil: none is sent.
    public var nickname: String?

    public init(relays: [RelayAddress]) { self.relays = relays }
  }

  public enum Event: Hashable, Sendable {
    /// Whether the proxy accepts connections. No relay is connected before that.
    case network(isReady: Bool)
    /// The transport of a link is ready: TLS and WebSocket.
    case opened(RelayLink)
    /// A connection could not be made, or has ended, for a reason that a person can read.
    case ended(RelayLink, reason: String)
    /// One text message of WebSocket.
    case received(RelayLink, [UInt8])
    /// A sign of life: the answer to `Intent.ping`, a ping of the relay, or an empty message.
    case ponged(RelayLink)
    /// `deadline` has come.
    case timer
  }

  /// Actions that the owner carries out, in this order.
  public enum Intent: Hashable, Sendable {
    /// Connects; the answer is `Event.opened` or `Event.ended`.
    case connect(RelayLink)
    /// Sends one text message of WebSocket.
    case send(RelayLink, String)
    /// Sends a ping of WebSocket.
    case ping(RelayLink)
    /// Closes a connection or a connection attempt. No further event of the connection is expected.
    case close(RelayLink, RelayFault?)
    /// A private message of a contact, which fulfils every rule. It may be reported again after a restart.
    case message(OpenedMessage)
    /// An event in a geohash channel.
    case channel(ChannelEvent)
    /// Stores an entry of the outbox, in place of one with the same ID.
    case store(OutboxEntry)
    /// Erases an entry of the outbox.
    case erase(OutboxID)
    /// A relay has accepted a message.
    case accepted(OutboxID)
    /// A message was given up: 24 h have passed, or 8 attempts, without a receipt.
    case expired(OutboxID)
    /// A relay's notice, for the journal at debug level.
    case notice(RelayLink, String)
  }

  public let configuration: Configuration
  private let key: Secp256k1.PrivateKey
  private let reader: PrivateEnvelope.Reader
  private var contacts: Set<NostrKey>
  private var channelKeys: [Geohash: Secp256k1.PrivateKey] = [:]
  private var sessions: [RelayLink: RelaySession] = [:]
  /// All links, in the order of the configuration.
  private let links: [RelayLink]
  private var outbox = Outbox()
  private var seen = SeenEvents()
  /// Events of strangers. They are stored separately, so that strangers cannot evict events of contacts.
  private var seenOfStrangers = SeenEvents()
  private var seenInChannels = SeenEvents()
  private var envelopes = TokenBucket(
    NostrLimits.envelopesPerSecond * NostrLimits.envelopeBurst, each: .seconds(NostrLimits.envelopeBurst))
  private var presence: [Geohash: Instant] = [:]
  private var random: any RandomSource & Sendable
  private var refusals: [EventRefusal: UInt64] = [:]
  private var faults: [RelayFault: UInt64] = [:]
  private var counts = Counts()

  private struct Counts: Sendable {
    var messages: UInt64 = 0
    var channelEvents: UInt64 = 0
    var published: UInt64 = 0
    var accepted: UInt64 = 0
    var rejected: UInt64 = 0
    var challenges: UInt64 = 0
  }

  /// Whether the proxy accepts connections.
  public private(set) var isNetworkReady = false
  /// Whether the owner can take no more messages. Envelopes are not opened then, and are requested again after a
  /// minute.
  public var isHolding = false

  /// - Parameters:
  ///   - key: this machine's key.
  ///   - contacts: mutual favourites, whose messages are accepted; nil: unknown until `setContacts` is called. Nothing
  ///     is connected for messages before, and the outbox stays as it is.
  ///   - outbox: the entries that the owner has stored, oldest first. Entries beyond the limits, and for recipients
  ///     who are not contacts, are dropped: `outboxEntries` has the others.
  ///   - random: for keys, nonces, times and names.
  /// - Throws: `cryptoFailed` if a key of a channel cannot be derived.
  public init(
    key: Secp256k1.PrivateKey, configuration: Configuration, contacts: Set<NostrKey>? = nil,
    outbox: [OutboxEntry] = [], at now: Instant, random: any RandomSource & Sendable
  ) throws(NostrError) {
    self.configuration = configuration
    self.key = key
    reader = PrivateEnvelope.Reader(key: key, dialects: configuration.accepts)
    self.contacts = contacts ?? []
    self.random = random
    let relays = Self.distinct(configuration.relays)
    var links = relays.map { RelayLink($0) }
    if let seed = configuration.channelSeed {
      for geohash in configuration.channels.prefix(NostrLimits.channels) where channelKeys[geohash] == nil {
        do throws(CryptoError) {
          channelKeys[geohash] = try geohash.key(seed: seed)
        } catch {
          throw .cryptoFailed("\(error)")
        }
        links += relays.map { RelayLink($0, .channel(geohash)) }
      }
    }
    self.links = links
    for link in links {
      sessions[link] = RelaySession(random: SeededRandom(seed: self.random.word()))
    }
    for entry in outbox where contacts?.contains(entry.recipient) ?? true { try? self.outbox.add(entry, at: now) }
  }

  private static func distinct(_ relays: [RelayAddress]) -> [RelayAddress] {
    var known: Set<RelayAddress> = []
    return Array(relays.filter { known.insert($0).inserted }.prefix(NostrLimits.relays))
  }

  /// This machine's public key.
  public var publicKey: NostrKey { key.xOnlyKey }

  /// This machine's public key in a channel; nil if the configuration does not have the channel.
  public func publicKey(in channel: Geohash) -> NostrKey? { channelKeys[channel]?.xOnlyKey }

  /// Messages that wait for a receipt, and receipts that no relay has accepted, oldest first.
  public var outboxEntries: [OutboxEntry] { outbox.entries }

  /// The number of messages and receipts that wait.
  public var outboxCount: Int { outbox.count }

  /// Whether a message or a receipt waits.
  public func holds(_ id: OutboxID) -> Bool { outbox.holds(id) }

  /// The state of each connection, in the order of the configuration.
  public var relays: [RelayStatus] {
    links.compactMap { link in
      sessions[link].map {
        RelayStatus(link: link, state: $0.state, reason: $0.reason, received: $0.received, accepted: $0.accepted)
      }
    }
  }

  /// When `Event.timer` is due; nil if nothing is timed.
  public func deadline(at now: Instant, wall: UnixTime) -> Instant? {
    var times = sessions.values.compactMap(\.deadline)
    if let expiry = outbox.expiryDeadline(at: now, wall: wall) { times.append(expiry) }
    if takesEvents(.messages), let next = outbox.sendDeadline { times.append(next) }
    times += presence.filter { takesEvents(.channel($0.key)) }.values
    return times.min()
  }

  /// All counters, with their names.
  public var tallies: [Tally] {
    [
      Tally("Messages", counts.messages), Tally("ChannelEvents", counts.channelEvents),
      Tally("PublishedEvents", counts.published), Tally("AcceptedEvents", counts.accepted),
      Tally("RejectedEvents", counts.rejected), Tally("Challenges", counts.challenges),
      Tally("ExpiredMessages", outbox.expired), Tally("DroppedReceipts", outbox.droppedReceipts),
    ] + EventRefusal.allCases.map { Tally($0.name, refusals[$0] ?? 0) }
      + RelayFault.allCases.map { Tally($0.name, faults[$0] ?? 0) }
  }

  // MARK: What programs want

  /// Replaces the contacts. Messages and receipts for those who are no contacts any more are erased. If there is a new
  /// contact, stored events are requested again.
  public mutating func setContacts(_ contacts: Set<NostrKey>, at now: Instant) -> [Intent] {
    let gone = outbox.recipients.subtracting(contacts)
    if !contacts.isSubset(of: self.contacts) { reviewStrangers(at: now) }
    self.contacts = contacts
    return gone.sorted { $0.hex < $1.hex }.flatMap { outbox.forget($0).map(Intent.init) } + wantLinks(at: now)
  }

  /// Requests stored events again: envelopes of strangers, which were dropped, may be from a new contact.
  private mutating func reviewStrangers(at now: Instant) {
    seenOfStrangers = SeenEvents()
    for link in links where link.purpose == .messages { sessions[link]?.renew(at: now) }
  }

  /// Sends a message to a contact until `cancel` is called for it, or a receipt until a relay has accepted it. At
  /// most 3 receipts a second are sent; the others wait.
  ///
  /// - Throws: `unknownRecipient`, `knownMessage`, `outboxFull`.
  public mutating func send(
    _ entry: OutboxEntry, at now: Instant, wall: UnixTime
  ) throws(NostrError) -> [Intent] {
    guard contacts.contains(entry.recipient) else { throw .unknownRecipient }
    try outbox.add(entry, at: now)
    return [.store(entry)] + sendDue(at: now, wall)
  }

  /// Ends the attempts to send a message or a receipt: the owner has the recipient's receipt, or withdraws the message.
  public mutating func cancel(_ id: OutboxID) -> [Intent] { outbox.cancel(id).map(Intent.init) }

  /// Publishes a text in a geohash channel, on each of its relays that is connected. It is not sent again.
  ///
  /// - Throws: `unknownChannel`, `badLength`, `noRelay`, `cryptoFailed`.
  public mutating func say(
    _ text: String, in channel: Geohash, at now: Instant, wall: UnixTime
  ) throws(NostrError) -> [Intent] {
    guard let key = channelKeys[channel] else { throw .unknownChannel }
    guard (1...NostrLimits.channelTextBytes).contains(text.utf8.count) else { throw .badLength(text.utf8.count) }
    guard takesEvents(.channel(channel)) else { throw .noRelay }
    let draft = ChannelEvent.text(
      text, in: channel, nickname: configuration.nickname, isTeleported: false, author: key.xOnlyKey, at: wall)
    return publish(try signed(draft, with: key), in: channel, at: now)
  }

  // MARK: What happens

  public mutating func handle(_ event: Event, at now: Instant, wall: UnixTime) -> [Intent] {
    switch event {
    case .network(let isReady):
      isNetworkReady = isReady
      return wantLinks(at: now)
    case .opened(let link):
      let intents = run(link, at: now, wall) { $0.opened($1, at: now) }
      guard sessions[link]?.isOpen == true else { return intents }
      switch link.purpose {
      case .messages: outbox.hurry(at: now)
      case .channel(let geohash):
        if geohash.hasPresence, presence[geohash] == nil { presence[geohash] = now }
      }
      return intents + sendDue(at: now, wall)
    case .ended(let link, let reason):
      if sessions[link]?.isActive == true { faults[.disconnected, default: 0] += 1 }
      return run(link, at: now, wall) { session, _ in session.ended(reason, at: now) } + sendDue(at: now, wall)
    case .received(let link, let bytes):
      return run(link, at: now, wall) { $0.receive(bytes, filter: $1, at: now) } + sendDue(at: now, wall)
    case .ponged(let link):
      return run(link, at: now, wall) { session, _ in session.ponged(at: now) } + sendDue(at: now, wall)
    case .timer:
      let own = links.flatMap { link in run(link, at: now, wall) { $0.timer($1, at: now) } }
      return own + outbox.expire(at: now, wall: wall).map(Intent.init) + sendDue(at: now, wall)
    }
  }

  /// Connects and closes relays as the network, the contacts and the configuration require.
  private mutating func wantLinks(at now: Instant) -> [Intent] {
    links.flatMap { link -> [Intent] in
      // Without a contact, a connection for messages would only disclose this machine's key.
      let isUseful = link.purpose != .messages || !contacts.isEmpty
      guard var session = sessions[link] else { return [] }
      let effects = session.want(isNetworkReady && isUseful, at: now)
      sessions[link] = session
      return effects.flatMap { carryOut($0, of: link, at: now, nil) }
    }
  }

  private mutating func run(
    _ link: RelayLink, at now: Instant, _ wall: UnixTime,
    _ step: (inout RelaySession, EventFilter) -> [RelaySession.Effect]
  ) -> [Intent] {
    guard var session = sessions[link] else { return [] }
    let effects = step(&session, filter(of: link, wall))
    sessions[link] = session
    return effects.flatMap { carryOut($0, of: link, at: now, wall) }
  }

  private func filter(of link: RelayLink, _ wall: UnixTime) -> EventFilter {
    switch link.purpose {
    case .messages:
      let age = NostrLimits.lookback + NostrLimits.nip59Jitter
      return EventFilter(
        kinds: [.giftWrap], recipients: [key.xOnlyKey], since: wall.advanced(by: .zero - age))
    case .channel(let geohash):
      return EventFilter(
        kinds: [.channelText, .channelPresence], geohashes: [geohash],
        since: wall.advanced(by: .zero - NostrLimits.channelLookback))
    }
  }

  private mutating func carryOut(
    _ effect: RelaySession.Effect, of link: RelayLink, at now: Instant, _ wall: UnixTime?
  ) -> [Intent] {
    switch effect {
    case .connect: return [.connect(link)]
    case .send(let message): return [.send(link, message.text)]
    case .ping: return [.ping(link)]
    case .close(let fault):
      if let fault { faults[fault, default: 0] += 1 }
      return [.close(link, fault)]
    case .event(let event):
      guard let wall else { return [] }
      return receive(event, from: link, at: now, wall)
    case .refused(let refusal):
      count(refusal)
      return []
    case .verdict(let id, let isAccepted):
      if isAccepted { counts.accepted += 1 } else { counts.rejected += 1 }
      return outbox.answered(id, isAccepted: isAccepted, at: now).map(Intent.init)
    case .lost(let ids):
      return ids.flatMap { outbox.answered($0, isAccepted: false, at: now) }.map(Intent.init)
    case .challenge:
      counts.challenges += 1
      return []
    case .notice(let text): return [.notice(link, text)]
    }
  }

  private mutating func count(_ refusal: EventRefusal) { refusals[refusal, default: 0] += 1 }

  // MARK: Events of relays

  /// Handles an event of a subscription. Cheap checks are made first.
  private mutating func receive(
    _ event: ReceivedEvent, from link: RelayLink, at now: Instant, _ wall: UnixTime
  ) -> [Intent] {
    do throws(EventRefusal) {
      switch link.purpose {
      case .messages: return [.message(try open(event, at: now, wall))]
      case .channel(let geohash): return [.channel(try read(event, in: geohash, wall))]
      }
    } catch {
      if error == .tooManyEnvelopes { sessions[link]?.renew(at: now.advanced(by: NostrLimits.answerTime)) }
      guard error.isRelayMistake else {
        count(error)
        return []
      }
      return run(link, at: now, wall) { session, _ in session.blame(error, at: now) }
    }
  }

  private mutating func open(
    _ event: ReceivedEvent, at now: Instant, _ wall: UnixTime
  ) throws(EventRefusal) -> OpenedMessage {
    guard !seen.contains(event.claimedID), !seenOfStrangers.contains(event.claimedID) else { throw .replayed }
    try PrivateEnvelope.check(event.draft, for: reader, now: wall)
    guard !isHolding, envelopes.take(at: now) else { throw .tooManyEnvelopes }
    let wrap = try event.verified()
    let contacts = contacts
    do throws(EventRefusal) {
      let message = try PrivateEnvelope.open(wrap, by: reader, now: wall) { contacts.contains($0) }
      seen.insert(wrap.id)
      counts.messages += 1
      return message
    } catch {
      // A library that refuses now may do the same work later.
      if error != .failed { seenOfStrangers.insert(wrap.id) }
      throw error
    }
  }

  private mutating func read(
    _ event: ReceivedEvent, in channel: Geohash, _ wall: UnixTime
  ) throws(EventRefusal) -> ChannelEvent {
    guard !seenInChannels.contains(event.claimedID) else { throw .replayed }
    let oldest = wall.advanced(by: .zero - NostrLimits.channelLookback - NostrLimits.clockTolerance)
    guard event.draft.createdAt >= oldest else { throw .tooOld }
    guard event.draft.createdAt <= wall.advanced(by: NostrLimits.clockTolerance) else { throw .tooNew }
    let verified = try event.verified()
    seenInChannels.insert(verified.id)
    guard verified.draft.author != channelKeys[channel]?.xOnlyKey else { throw .ownMessage }
    let read = try ChannelEvent(verified, in: channel)
    counts.channelEvents += 1
    return read
  }

  // MARK: Events of ours

  private func takesEvents(_ purpose: RelayPurpose) -> Bool {
    links.contains { $0.purpose == purpose && sessions[$0]?.takesEvents == true }
  }

  /// Publishes an event on each connected relay of a purpose that can accept events now.
  private mutating func publish(
    _ event: NostrEvent, on purpose: RelayPurpose, at now: Instant
  ) -> (intents: [Intent], relays: Int) {
    var intents: [Intent] = []
    var relays = 0
    for link in links where link.purpose == purpose && sessions[link]?.takesEvents == true {
      guard var session = sessions[link] else { continue }
      let effects = session.publish(event, at: now)
      sessions[link] = session
      intents += effects.flatMap { carryOut($0, of: link, at: now, nil) }
      relays += 1
    }
    counts.published += relays > 0 ? 1 : 0
    return (intents, relays)
  }

  private mutating func publish(_ event: NostrEvent, in channel: Geohash, at now: Instant) -> [Intent] {
    seenInChannels.insert(event.id)
    return publish(event, on: .channel(channel), at: now).intents
  }

  private mutating func signed(
    _ draft: EventDraft, with key: Secp256k1.PrivateKey
  ) throws(NostrError) -> NostrEvent {
    do throws(CryptoError) {
      return try draft.signed(with: key, randomFrom: &random)
    } catch {
      throw .cryptoFailed("\(error)")
    }
  }

  /// Sends what is due: messages, receipts and presence.
  private mutating func sendDue(at now: Instant, _ wall: UnixTime) -> [Intent] {
    var intents: [Intent] = []
    while takesEvents(.messages), let entry = outbox.due(at: now) { intents += send(entry, at: now, wall) }
    return intents + sendPresence(at: now, wall)
  }

  private mutating func send(_ entry: OutboxEntry, at now: Instant, _ wall: UnixTime) -> [Intent] {
    let wrap: NostrEvent
    do throws(CryptoError) {
      wrap = try PrivateEnvelope.wrap(
        entry.text, to: entry.recipient, from: key, dialect: configuration.sends, sentAt: entry.sentAt, now: wall,
        randomFrom: &random)
    } catch {
      count(.failed)
      outbox.failed(entry.id, at: now)
      return []
    }
    let (intents, relays) = publish(wrap, on: .messages, at: now)
    outbox.sent(entry.id, as: wrap.id, to: relays, at: now)
    return intents
  }

  /// Publishes the presence in channels where it is due, and draws the time of the next one.
  private mutating func sendPresence(at now: Instant, _ wall: UnixTime) -> [Intent] {
    var intents: [Intent] = []
    for (channel, time) in presence where time <= now && takesEvents(.channel(channel)) {
      guard let key = channelKeys[channel] else { continue }
      let pause = random.factor(in: NostrLimits.presencePause)
      presence[channel] = now.advanced(by: .seconds(pause))
      let draft = ChannelEvent.presence(in: channel, author: key.xOnlyKey, at: wall)
      if let event = try? signed(draft, with: key) { intents += publish(event, in: channel, at: now) }
    }
    return intents
  }
}

extension NostrEngine.Intent {
  fileprivate init(_ effect: Outbox.Effect) {
    switch effect {
    case .store(let entry): self = .store(entry)
    case .erase(let id): self = .erase(id)
    case .accepted(let id): self = .accepted(id)
    case .expired(let id): self = .expired(id)
    }
  }
}

/// The IDs of the last events that were handled, so that each is handled once although several relays send it.
struct SeenEvents: Sendable {
  private let limit: Int
  private var ids: Set<EventID> = []
  private var order = Fifo<EventID>()

  init(limit: Int = NostrLimits.seenEvents) { self.limit = limit }

  var count: Int { ids.count }

  func contains(_ id: EventID) -> Bool { ids.contains(id) }

  /// Remembers an ID, and forgets the oldest if there are too many.
  mutating func insert(_ id: EventID) {
    guard ids.insert(id).inserted else { return }
    order.append(id)
    if ids.count > limit, let oldest = order.popFirst() { ids.remove(oldest) }
  }
}
