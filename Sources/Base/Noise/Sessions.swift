import Common
import Crypto

/// The sessions with all peers: handshakes by pattern XX, sealed messages, and recovery from errors of either.
///
/// The caller defines a peer's identity, and `belongs` decides whether a static key belongs to it. If two peers begin a
/// handshake with each other, the smaller identity stays the initiator.
///
/// Handshake messages are recognised by their length: the first has 32 bytes, the second 96, the third 64. A first
/// message does not authenticate its sender, so it never changes a session: the session continues until the third
/// message authenticates the peer. Then the new session seals, and the old keys only open, until a message under the
/// new keys shows that the peer has them. A first message does not end other handshakes under way: each waits for its
/// own next message until its timeout.
///
/// The caller stores messages that wait for a session: it requests one with `begin`, and receives `established`.
public struct Sessions<Peer: Hashable & Comparable & Sendable>: Sendable {
  public var limits: SessionLimits { didSet { deadline = firstDue } }
  public private(set) var counters = Counters()

  private let key: X25519.PrivateKey
  private let own: Peer
  private let belongs: @Sendable (X25519.PublicKey, Peer) -> Bool
  private var random: AnyRandom
  var records: [Peer: PeerRecord] = [:]
  private var budget = HandshakeBudget<Peer>()

  /// - Parameters:
  ///   - key: this side's static key.
  ///   - own: this side's identity.
  ///   - random: the source of ephemeral keys.
  ///   - belongs: whether a static key belongs to an identity.
  public init(
    key: X25519.PrivateKey, own: Peer, limits: SessionLimits = .init(), random: any RandomSource & Sendable,
    belongs: @escaping @Sendable (X25519.PublicKey, Peer) -> Bool
  ) {
    (self.key, self.own, self.limits, self.belongs) = (key, own, limits, belongs)
    self.random = AnyRandom(source: random)
  }

  /// When `Event.timer` is due; nil if nothing is timed. It is computed with each event, because callers read it for
  /// each packet, and most packets are not session events.
  public private(set) var deadline: Instant?

  /// Whether there is a session that seals messages for the peer.
  public func hasSession(with peer: Peer) -> Bool { records[peer]?.live != nil }

  /// Whether this side has begun a handshake that the peer has not answered.
  public func awaitsAnswer(from peer: Peer) -> Bool { records[peer]?.initiator != nil }

  /// The static key of a peer with a session.
  public func key(of peer: Peer) -> X25519.PublicKey? { records[peer]?.live?.key }

  /// The peers with a session, in no order.
  public var peers: [Peer] { records.filter { $0.value.live != nil }.map(\.key) }

  /// Number of peers with handshakes under way.
  public var halfOpen: Int { records.values.count { !$0.handshakes.isEmpty } }

  /// Seals `plaintext` for the peer.
  ///
  /// Throws `noSession` if `begin` is needed first, `badLength` if the plaintext is longer than the limit, and
  /// `exhausted` if the nonces are used up; the session has then ended.
  public mutating func seal(_ plaintext: [UInt8], for peer: Peer, at now: Instant) throws(NoiseError) -> [UInt8] {
    guard plaintext.count <= limits.messageBytes else { throw .badLength }
    guard records[peer]?.live != nil else { throw .noSession }
    defer { deadline = firstDue }
    do throws(NoiseError) {
      guard let message = try records[peer]?.live?.transport.seal(plaintext) else { throw .noSession }
      records[peer]?.live?.use(limits, at: now)
      counters.sealed += 1
      return message
    } catch {
      records[peer]?.endSession()
      tidy(peer)
      throw error
    }
  }

  /// Handles an event.
  ///
  /// - Parameter worth: returns the value of a peer to the caller, for the choice of a session to evict:
  ///   `SessionLimits.sessions`.
  public mutating func handle(_ event: Event, at now: Instant, worth: (Peer) -> Int = { _ in 0 }) -> [Action] {
    defer { deadline = firstDue }
    switch event {
    case .begin(let peer): return begin(with: peer, at: now)
    case .again(let peer): return sendAgain(to: peer)
    case .ask(let peer): return ask(peer, at: now)
    case .handshake(let peer, let message, let source):
      return handshake(message, from: peer, source, worth, at: now)
    case .message(let peer, let message, let source): return open(message, from: peer, source, at: now)
    case .unanswered(let peer): return recover(peer, because: nil, at: now)
    case .timer: return timer(at: now)
    case .forget(let peer):
      records[peer] = nil
      return []
    case .forgetAll:
      records = [:]
      return []
    }
  }

  // MARK: Starting handshakes

  private mutating func begin(with peer: Peer, at now: Instant) -> [Action] {
    guard peer != own else {
      counters.count(.ourselves)
      return [.failed(peer, .refused(.ourselves))]
    }
    guard records[peer]?.live == nil else { return [] }
    if records[peer]?.handshakes.isEmpty == false {
      records[peer]?.want()
      return beginBeside(peer, at: now)
    }
    return attempt(1, with: peer, on: .ours, isWanted: true, at: now)
  }

  /// Begins a wanted handshake although the peer may have begun others. Their first messages are not authenticated, so
  /// an attacker may have sent them.
  private mutating func beginBeside(_ peer: Peer, at now: Instant) -> [Action] {
    guard records[peer]?.courtesyEnd(limits).map({ $0 <= now }) == true else { return [] }
    records[peer]?.wantNoMore()
    return attempt(1, with: peer, on: .ours, isWanted: true, at: now)
  }

  private mutating func ask(_ peer: Peer, at now: Instant) -> [Action] {
    guard peer != own, records[peer]?.live == nil else { return [] }
    guard records[peer]?.initiator == nil else { return sendAgain(to: peer) }
    return attempt(1, with: peer, on: .ours, isWanted: false, at: now)
  }

  private mutating func sendAgain(to peer: Peer) -> [Action] {
    guard records[peer]?.live == nil, let message = records[peer]?.takeCopy(limits) else { return [] }
    return [.send(peer, message)]
  }

  /// Sends a first message with a fresh ephemeral key.
  private mutating func attempt(
    _ number: Int, with peer: Peer, on account: HandshakeBudget<Peer>.Account, isWanted: Bool, at now: Instant
  ) -> [Action] {
    let hasRoom = records[peer]?.handshakes.isEmpty == false || makeHalfOpenRoom(for: nil, at: now)
    if let refusal = hasRoom ? budget.take(peer, account, limits, at: now) : .halfOpenLimit {
      counters.count(refusal)
      tidy(peer)
      return isWanted ? [.failed(peer, .refused(refusal))] : []
    }
    var new = Handshake(.xxInitiator, key: key, prologue: limits.prologue)
    let message: [UInt8]
    do throws(NoiseError) {
      message = try new.write(randomFrom: &random)
    } catch {
      // A first message contains nothing from the peer, so its creation cannot fail because of the peer.
      return none(.badHandshake)
    }
    counters.begun += 1
    let half = HalfOpen(
      handshake: new, role: .initiator(attempt: number, first: message), at: now, for: limits.initiatorTimeout,
      isWanted: isWanted)
    change(peer, at: now) { $0.add(half) }
    return [.send(peer, message)]
  }

  // MARK: Messages of handshakes

  private mutating func handshake(
    _ message: [UInt8], from peer: Peer, _ source: MessageSource, _ worth: (Peer) -> Int, at now: Instant
  ) -> [Action] {
    guard peer != own else { return none(.ourselves) }
    switch message.count {
    case 32: return first(message, from: peer, source, at: now)
    case 96, 64: return answer(message, from: peer, source, worth, at: now)
    default: return none(.badLength)
    }
  }

  private mutating func first(
    _ message: [UInt8], from peer: Peer, _ source: MessageSource, at now: Instant
  ) -> [Action] {
    let record = records[peer]
    if let answered = record?.answered, answered.message == message, answered.at.duration(to: now) < limits.span {
      return none(.repeated)
    }
    if own < peer, record?.initiator != nil || record?.live?.isFresh(limits, at: now) == true {
      return none(.collision)
    }
    if let replacedAt = record?.replacedAt, record?.live != nil, replacedAt.duration(to: now) < limits.replacementPause
    {
      return none(.replacedLately)
    }
    let room = record?.room(for: source, limits, at: now) ?? .free
    guard room != .none else { return none(.halfOpenLimit) }
    if let refusal = budget.take(peer, .others(source), limits, at: now) { return none(refusal) }
    guard record?.handshakes.isEmpty == false || makeHalfOpenRoom(for: source, at: now) else {
      return none(.halfOpenLimit)
    }
    var new = Handshake(.xxResponder, key: key, prologue: limits.prologue)
    let second: [UInt8]
    do throws(NoiseError) {
      _ = try new.read(message)
      second = try new.write(randomFrom: &random)
    } catch {
      return none(error == .weakKey ? .weakKey : .badHandshake)
    }
    counters.answered += 1
    let half = HalfOpen(
      handshake: new, role: .responder(source), at: now, for: limits.responderTimeout, isWanted: false)
    change(peer, at: now) { record in
      record.add(half, in: room)
      record.answered = (message, now)
    }
    return [.send(peer, second)]
  }

  /// Processes the second message, for the initiator, or the third, for the responder, with the newest matching
  /// handshake.
  private mutating func answer(
    _ message: [UInt8], from peer: Peer, _ source: MessageSource, _ worth: (Peer) -> Int, at now: Instant
  ) -> [Action] {
    var reason: Drop?
    let (handshakes, early) = (records[peer]?.handshakes ?? [], records[peer]?.early ?? [])
    for (place, half) in handshakes.enumerated().reversed()
    where half.isInitiator == (message.count == 96) && half.end > now {
      guard half.bad.count(of: source) < limits.badMessages else {
        reason = reason ?? .tooManyBad
        continue
      }
      switch complete(half, message, from: peer, source, at: now) {
      case .session(let session, let third):
        return establish(session, third: third, half, early: early, peer, worth, at: now)
      case .bad(let bad):
        records[peer]?.noteBad(place, from: source)
        reason = reason ?? bad
      }
    }
    return none(reason ?? .outOfTurn)
  }

  private enum Completion {
    case session(LiveSession, third: [UInt8]?)
    case bad(Drop)
  }

  /// Processes the second or third message of a handshake.
  private mutating func complete(
    _ half: HalfOpen, _ message: [UInt8], from peer: Peer, _ source: MessageSource, at now: Instant
  ) -> Completion {
    var handshake = half.handshake
    do throws(NoiseError) {
      _ = try handshake.read(message)
      guard let theirs = handshake.peer, belongs(theirs, peer) else { return .bad(.wrongKey) }
      let third = half.isInitiator ? try handshake.write(randomFrom: &random) : nil
      let transport = try handshake.session()
      let session = LiveSession(
        transport: transport, key: theirs, hash: handshake.hash, isOurs: half.isInitiator, source: source, at: now)
      return .session(session, third: third)
    } catch {
      return .bad(error == .weakKey ? .weakKey : .badHandshake)
    }
  }

  private mutating func establish(
    _ session: LiveSession, third: [UInt8]?, _ half: HalfOpen, early: [[UInt8]], _ peer: Peer,
    _ worth: (Peer) -> Int, at now: Instant
  ) -> [Action] {
    let isReplacement = change(peer, at: now) { $0.adopt(session) }
    counters.established += 1
    if isReplacement { counters.replaced += 1 }
    if isReplacement, !half.isInitiator { records[peer]?.replacedAt = now }
    var actions = third.map { [Action.send(peer, $0)] } ?? []
    actions.append(.established(peer, key: session.key, hash: session.hash))
    actions += makeRoom(except: peer, worth)
    // The keys decide whether a message is opened, not its source.
    for message in early { actions += open(message, from: peer, .unknown, at: now) }
    return actions
  }

  /// Evicts a handshake for one with another peer: the oldest of the source that has begun handshakes with the most
  /// peers. A handshake of the newcomer's own source is evicted only after `firmTimeOfMany`.
  ///
  /// - Parameter source: the source of the new handshake; nil if this side begins it.
  /// - Returns: whether there is space.
  private mutating func makeHalfOpenRoom(for source: MessageSource?, at now: Instant) -> Bool {
    guard halfOpen >= limits.halfOpen else { return true }
    // Handshakes that this side has begun or wants, and those with peers under whose names several sources began, are
    // not evicted.
    var oldest: [MessageSource: (peer: Peer, begunAt: Instant)] = [:]
    var counts: [MessageSource: Int] = [:]
    for (peer, record) in records where record.initiator == nil && !record.handshakes.contains(where: \.isWanted) {
      guard record.begun.count == 1, let (source, _) = record.begun.first, let last = record.handshakes.last else {
        continue
      }
      counts[source, default: 0] += 1
      let known = oldest[source]
      if known.map({ (last.begunAt, peer) < ($0.begunAt, $0.peer) }) ?? true { oldest[source] = (peer, last.begunAt) }
    }
    let own = source.flatMap { counts[$0] } ?? 0
    guard let busiest = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) }) else { return false }
    let loser = busiest.value > own + 1 ? busiest.key : source ?? busiest.key
    guard let victim = oldest[loser],
      loser != source || victim.begunAt.duration(to: now) >= limits.firmTimeOfMany
    else { return false }
    for half in records[victim.peer]?.takeBegun(by: loser) ?? [] {
      for _ in half.early { counters.count(.undecryptable) }
    }
    counters.count(.pushedOut)
    tidy(victim.peer)
    return true
  }

  /// Ends a session if there are too many: among the peers of the lowest worth, the least recently used session of the
  /// source with the most. Anybody can complete a handshake with a new key, so worth and source take precedence over
  /// the time of use.
  private mutating func makeRoom(except peer: Peer, _ worth: (Peer) -> Int) -> [Action] {
    let sessions = records.filter { $0.value.live != nil }
    guard sessions.count > limits.sessions else { return [] }
    var ofSource: [MessageSource: Int] = [:]
    let others = sessions.filter { $0.key != peer }.compactMap { other, record in
      record.live.map { (peer: other, worth: worth(other), source: $0.source, usedAt: $0.usedAt) }
    }
    let lowest = others.map(\.worth).min()
    for other in others where other.worth == lowest { ofSource[other.source, default: 0] += 1 }
    let least = others.filter { $0.worth == lowest }.min { left, right in
      let (ofLeft, ofRight) = (ofSource[left.source, default: 0], ofSource[right.source, default: 0])
      return (-ofLeft, left.source, left.usedAt, left.peer) < (-ofRight, right.source, right.usedAt, right.peer)
    }?.peer
    guard let least else { return [] }
    counters.evicted += 1
    records[least]?.endSession()
    tidy(least)
    return [.ended(least)]
  }

  // MARK: Messages of sessions

  private mutating func open(
    _ message: [UInt8], from peer: Peer, _ source: MessageSource, at now: Instant
  ) -> [Action] {
    guard peer != own else { return none(.ourselves) }
    guard message.count >= TransportSession.overhead else { return none(.badLength) }
    guard message.count - TransportSession.overhead <= limits.messageBytes else { return none(.tooLong) }
    switch change(peer, at: now, { [limits] in $0.open(message, limits, at: now) }) {
    case .opened(let text):
      counters.opened += 1
      return [.opened(peer, text)]
    case .refused(let reason): return none(reason)
    case .unknown: return undecryptable(message, from: peer, source, at: now)
    }
  }

  /// Stores a message that no key opens, if a handshake under way may bring the key. Otherwise begins a handshake if a
  /// limit allows it.
  private mutating func undecryptable(
    _ message: [UInt8], from peer: Peer, _ source: MessageSource, at now: Instant
  ) -> [Action] {
    if let record = records[peer], record.hasResponder {
      func bytes(_ messages: [[UInt8]]) -> Int { messages.reduce(0) { $0 + $1.count } }
      let kept = records.values.reduce(0) { $0 + bytes($1.early) }
      let ofSource = records.values.reduce(0) { $0 + bytes($1.early(from: source)) }
      guard record.early(from: source).count < limits.earlyMessages,
        ofSource + message.count <= limits.earlyBytesOfSource, kept + message.count <= limits.earlyBytes
      else {
        return none(.earlyLimit)
      }
      records[peer]?.keepEarly(message, from: source)
      return []
    }
    counters.count(.undecryptable)
    let count = change(peer, at: now) { record in
      record.undecryptable += 1
      return record.undecryptable
    }
    return records[peer]?.live == nil || count >= limits.undecryptable ? recover(peer, because: source, at: now) : []
  }

  /// Begins a handshake because the peer seems to have other keys, at most once a minute.
  ///
  /// - Parameter source: the source of the messages that no key opened; nil if the caller requested the handshake.
  private mutating func recover(_ peer: Peer, because source: MessageSource?, at now: Instant) -> [Action] {
    guard let record = records[peer], record.initiator == nil else { return [] }
    if let recoveredAt = record.recoveredAt, recoveredAt.duration(to: now) < limits.pause { return [] }
    // Without a session, the third message counts towards the limits of first messages. Other messages have lower
    // limits.
    let isCertain = record.live == nil && record.undecryptable >= limits.undecryptable
    let account: HandshakeBudget<Peer>.Account = source.map { isCertain ? .others($0) : .recovery($0) } ?? .ours
    let actions = attempt(1, with: peer, on: account, isWanted: false, at: now)
    // The minute begins when a message is sent; a refused attempt is repeated with the next message.
    guard !actions.isEmpty else { return [] }
    counters.recoveries += 1
    records[peer]?.recoveredAt = now
    records[peer]?.undecryptable = 0
    return actions
  }

  // MARK: Time

  private var firstDue: Instant? {
    var first: Instant?
    for (peer, record) in records {
      guard let due = deadline(of: record, peer) else { continue }
      first = min(first ?? due, due)
    }
    return first
  }

  private func deadline(of record: PeerRecord, _ peer: Peer) -> Instant? {
    var first = record.rekeyAt(limits, isSmaller: own < peer)
    if let end = record.courtesyEnd(limits) { first = min(first ?? end, end) }
    for half in record.handshakes { first = min(first ?? half.end, half.end) }
    return first
  }

  private func isDue(_ record: PeerRecord, _ peer: Peer, at now: Instant) -> Bool {
    deadline(of: record, peer).map { $0 <= now } ?? false
  }

  private mutating func timer(at now: Instant) -> [Action] {
    let due = records.filter { isDue($0.value, $0.key, at: now) }.map(\.key)
    return due.sorted().flatMap { peer in
      var actions: [Action] = []
      for half in records[peer]?.takeEnded(at: now) ?? [] {
        counters.timedOut += 1
        actions += timeOut(half, of: peer, at: now)
      }
      actions += beginBeside(peer, at: now)
      // A handshake may have delayed a renewal.
      if records[peer].map({ isDue($0, peer, at: now) }) == true { actions += rekey(peer, at: now) }
      tidy(peer)
      return actions
    }
  }

  private mutating func timeOut(_ half: HalfOpen, of peer: Peer, at now: Instant) -> [Action] {
    switch half.role {
    case .initiator(let attempt, _):
      guard half.isWanted else { return [] }
      guard attempt < limits.attempts else { return [.failed(peer, .timedOut)] }
      return self.attempt(attempt + 1, with: peer, on: .ours, isWanted: true, at: now)
    case .responder(let source):
      for _ in half.early { counters.count(.undecryptable) }
      if half.isWanted, records[peer]?.initiator == nil {
        return attempt(1, with: peer, on: .ours, isWanted: true, at: now)
      }
      // The third message was lost, and the peer already sends sealed messages.
      return half.early.isEmpty ? [] : recover(peer, because: source, at: now)
    }
  }

  private mutating func rekey(_ peer: Peer, at now: Instant) -> [Action] {
    guard records[peer]?.live != nil else { return [] }
    counters.rekeys += 1
    records[peer]?.rekeyedAt = now
    return attempt(1, with: peer, on: .ours, isWanted: false, at: now)
  }

  // MARK: Records

  /// Changes the record of a peer, which is created if it does not exist.
  private mutating func change<Result>(
    _ peer: Peer, at now: Instant, _ body: (inout PeerRecord) -> Result
  ) -> Result {
    let isNew = records[peer] == nil
    records[peer, default: PeerRecord(at: now)].touchedAt = now
    let result = body(&records[peer, default: PeerRecord(at: now)])
    if isNew { forgetStranger(except: peer) }
    return result
  }

  /// Removes the record of a peer without session, handshake, recovery or invalid messages.
  private mutating func tidy(_ peer: Peer) {
    guard let record = records[peer], record.isStranger else { return }
    if record.undecryptable == 0, record.recoveredAt == nil {
      records[peer] = nil
    } else {
      forgetStranger(except: peer)
    }
  }

  /// Removes the stranger with the oldest activity if there are more than `limits.strangers`.
  private mutating func forgetStranger(except peer: Peer) {
    let strangers = records.filter { $0.value.isStranger }
    guard strangers.count > limits.strangers else { return }
    let others = strangers.filter { $0.key != peer }
    let oldest = others.min { ($0.value.touchedAt, $0.key) < ($1.value.touchedAt, $1.key) }
    if let oldest { records[oldest.key] = nil }
  }

  /// Counts a drop and returns no action.
  private mutating func none(_ reason: Drop) -> [Action] {
    counters.count(reason)
    return []
  }
}

/// Erases the type of a generator. The compiler (6.3.1) crashes on an existential that is passed as `some RandomSource`
/// to a function with typed errors.
private struct AnyRandom: RandomSource, Sendable {
  var source: any RandomSource & Sendable

  mutating func fill(_ bytes: inout [UInt8]) { source.fill(&bytes) }
}
