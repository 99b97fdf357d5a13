import Common
import Crypto

/// What is known of one peer: its session, the handshakes that are under way with it, and what it did lately.
struct PeerRecord: Sendable {
  /// The session that seals; messages are opened with it or with `former`.
  var live: LiveSession?
  /// The keys that `live` replaced. They only open, until the first message of `live` shows that the peer has its keys.
  private(set) var former: TransportSession?
  /// Handshakes that are under way, the newest last. Nobody can tell who sent a first message, so the true handshake may be one of
  /// those whose place a newer one has taken.
  private(set) var handshakes: [HalfOpen] = []
  /// Messages in a row that no key opened.
  var undecryptable = 0
  /// When a handshake was begun because the peer seemed to have other keys.
  var recoveredAt: Instant?
  /// When a handshake that the peer began replaced a session.
  var replacedAt: Instant?
  /// When this side wanted to renew the session.
  var rekeyedAt: Instant?
  /// The last first message that was answered, and when: a copy of it that comes by another way is not answered again.
  var answered: (message: [UInt8], at: Instant)?
  var touchedAt: Instant

  init(at now: Instant) {
    touchedAt = now
  }

  /// The one that this side has begun; there is one at most.
  var initiator: HalfOpen? { handshakes.first(where: \.isInitiator) }

  /// Messages that came before the third one of a handshake.
  var early: [[UInt8]] { handshakes.flatMap(\.early) }

  /// Adds one. Where there are too many, the oldest goes that this side has not begun, and the next one takes over what it held.
  mutating func add(_ half: HalfOpen, limit: Int) {
    handshakes.append(half)
    guard handshakes.count > limit, let oldest = handshakes.firstIndex(where: { !$0.isInitiator }) else { return }
    let gone = handshakes.remove(at: oldest)
    guard let next = handshakes.firstIndex(where: { !$0.isInitiator }) else { return }
    handshakes[next].takeOver(gone)
  }

  /// Takes the handshakes away whose time is over.
  mutating func takeEnded(at now: Instant) -> [HalfOpen] {
    let ended = handshakes.filter { $0.end <= now }
    handshakes.removeAll { $0.end <= now }
    return ended
  }

  /// There is something to be sent: the one that this side has begun is tried again, or the newest one is followed by one.
  mutating func want() {
    guard let place = handshakes.firstIndex(where: \.isInitiator) ?? handshakes.indices.last else { return }
    handshakes[place].isWanted = true
  }

  /// Whether the peer may have begun one.
  var hasResponder: Bool { handshakes.contains { !$0.isInitiator } }

  /// A message that no key opens waits for the newest handshake that the peer may have begun.
  mutating func keepEarly(_ message: [UInt8]) {
    guard let place = handshakes.lastIndex(where: { !$0.isInitiator }) else { return }
    handshakes[place].keepEarly(message)
  }

  /// A message for one of them was not right.
  mutating func noteBad(_ place: Int, isNear: Bool) {
    if isNear { handshakes[place].nearBad += 1 } else { handshakes[place].bad += 1 }
  }

  /// Whether nothing but conduct is known of the peer.
  var isStranger: Bool { live == nil && handshakes.isEmpty }

  /// Takes the session of a complete handshake into use.
  ///
  /// - Returns: whether it replaced one.
  mutating func adopt(_ session: LiveSession) -> Bool {
    let before = live
    if let before, before.isProven || former == nil { former = before.transport }
    (live, handshakes, undecryptable) = (session, [], 0)
    return before != nil
  }

  /// Drops the keys of the session.
  mutating func endSession() {
    (live, former) = (nil, nil)
  }

  enum Opening {
    case opened([UInt8])
    /// The peer sealed it, but it is not to be read.
    case refused(Drop)
    /// No key opens it.
    case unknown
  }

  /// Opens a message with one of the keys.
  mutating func open(_ message: [UInt8], _ limits: SessionLimits, at now: Instant) -> Opening {
    guard live != nil else { return .unknown }
    do throws(NoiseError) {
      let text = try live?.transport.open(message)
      // The peer has the new keys, so it has no use for the old ones.
      former = nil
      live?.isProven = true
      return opened(text ?? [], limits, at: now)
    } catch .authenticationFailed {
      // Perhaps it was sealed before the peer had the new keys.
    } catch {
      return .refused(Self.drop(for: error))
    }
    guard former != nil else { return .unknown }
    do throws(NoiseError) {
      return opened(try former?.open(message) ?? [], limits, at: now)
    } catch .authenticationFailed {
      return .unknown
    } catch {
      return .refused(Self.drop(for: error))
    }
  }

  private mutating func opened(_ text: [UInt8], _ limits: SessionLimits, at now: Instant) -> Opening {
    undecryptable = 0
    live?.use(limits, at: now)
    return .opened(text)
  }

  private static func drop(for error: NoiseError) -> Drop {
    switch error {
    case .replayed: .replayed
    case .tooOld: .tooOld
    case .nonceJump: .nonceJump
    case .weakKey: .weakKey
    case .badLength, .outOfTurn, .exhausted, .noSession: .badLength
    case .authenticationFailed: .undecryptable
    }
  }

  /// When this side renews the session; nil while it does not. After an attempt that led to nothing, a session that was not
  /// used again is not worth another one: perhaps the peer is gone.
  func rekeyAt(_ limits: SessionLimits, isSmaller: Bool) -> Instant? {
    guard let live, initiator == nil else { return nil }
    if let rekeyedAt, rekeyedAt > live.establishedAt, rekeyedAt >= live.usedAt { return nil }
    var due = live.establishedAt.advanced(by: limits.rekeyAge)
    if let filledAt = live.filledAt { due = min(due, filledAt) }
    if !isSmaller {
      guard let grace = limits.rekeyGrace else { return nil }
      due = due.advanced(by: grace)
    }
    due = max(due, live.usedAt.advanced(by: limits.rekeyIdle))
    return max(due, rekeyedAt?.advanced(by: limits.pause) ?? due)
  }
}

/// A session with a peer, and what it was used for.
struct LiveSession: Sendable {
  var transport: TransportSession
  let key: X25519.PublicKey
  let hash: [UInt8]
  /// Whether this side began the handshake.
  let isOurs: Bool
  let establishedAt: Instant
  /// When the last message was sealed or opened.
  private(set) var usedAt: Instant
  /// Messages in both directions.
  private(set) var messages = 0
  /// When there were so many that the session is to be renewed.
  private(set) var filledAt: Instant?
  /// Whether a message of the peer's was opened with these keys.
  var isProven = false

  init(transport: TransportSession, key: X25519.PublicKey, hash: [UInt8], isOurs: Bool, at now: Instant) {
    (self.transport, self.key, self.hash, self.isOurs) = (transport, key, hash, isOurs)
    (establishedAt, usedAt) = (now, now)
  }

  /// Whether a first message of the peer may be as old as the handshake, which both have begun then: this side has only just had an
  /// answer to its own.
  func isFresh(_ limits: SessionLimits, at now: Instant) -> Bool {
    isOurs && !isProven && establishedAt.duration(to: now) < limits.initiatorTimeout
  }

  mutating func use(_ limits: SessionLimits, at now: Instant) {
    usedAt = now
    messages += 1
    if filledAt == nil, messages >= limits.rekeyMessages { filledAt = now }
  }
}

/// A handshake that is under way.
struct HalfOpen: Sendable {
  enum Role: Sendable {
    /// This side sent the first message, for the nth time.
    case initiator(attempt: Int)
    /// This side answered the first message, which came over the peer's own link or not. What comes before the third one is kept.
    case responder(early: [[UInt8]], isNear: Bool)
  }

  var handshake: Handshake
  var role: Role
  let end: Instant
  /// Whether there is something to be sent to the peer: then another attempt follows.
  var isWanted: Bool
  /// Messages that were not right; those that came over the peer's own link are counted apart.
  var bad = 0
  var nearBad = 0

  var isInitiator: Bool {
    switch role {
    case .initiator: true
    case .responder: false
    }
  }

  var early: [[UInt8]] {
    switch role {
    case .initiator: []
    case .responder(let early, _): early
    }
  }

  mutating func keepEarly(_ message: [UInt8]) {
    if case .responder(let early, let isNear) = role { role = .responder(early: early + [message], isNear: isNear) }
  }

  /// What another one held is held by this one.
  mutating func takeOver(_ other: HalfOpen) {
    isWanted = isWanted || other.isWanted
    if case .responder(let early, let isNear) = role { role = .responder(early: other.early + early, isNear: isNear) }
  }

  /// Whether a first message that comes aside is dropped beside it.
  var isFirm: Bool {
    switch role {
    // A neighbour that has not answered the first one may have begun itself, and be heard aside alone.
    case .initiator(let attempt): attempt == 1
    case .responder(_, let isNear): isNear
    }
  }
}
