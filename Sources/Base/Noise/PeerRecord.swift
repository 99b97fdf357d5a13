import Common
import Crypto

/// The state of one peer: its session, the handshakes that are under way with it, and its recent behaviour.
struct PeerRecord: Sendable {
  /// The session whose keys seal messages. It opens messages together with `former`.
  var live: LiveSession?
  /// The keys that `live` replaced. They open messages, and seal none, until the first message under `live` shows
  /// that the peer has the new keys.
  private(set) var former: TransportSession?
  /// Handshakes that are under way, the newest last. First messages do not authenticate their sender. The genuine
  /// handshake may therefore be older than one that an attacker has begun.
  private(set) var handshakes: [HalfOpen] = []
  /// Number of consecutive messages that no key opened.
  var undecryptable = 0
  /// When this side last began a handshake because the peer seemed to have other keys.
  var recoveredAt: Instant?
  /// When a handshake that the peer began last replaced a session.
  var replacedAt: Instant?
  /// When this side last tried to renew the session.
  var rekeyedAt: Instant?
  /// The last first message that was answered, and when. A copy that arrives on another path is not answered again.
  var answered: (message: [UInt8], at: Instant)?
  var touchedAt: Instant

  init(at now: Instant) {
    touchedAt = now
  }

  /// The handshake under way that this side has begun; there is at most one.
  var initiator: HalfOpen? { handshakes.first(where: \.isInitiator) }

  /// Messages that arrived before the third message of their handshakes.
  var early: [[UInt8]] { handshakes.flatMap(\.early) }

  /// The result of a search for capacity for a handshake that a source begins.
  enum Room: Equatable {
    case free
    /// The new handshake replaces the one at this index, which is evicted.
    case replaces(Int)
    case none
  }

  /// Finds capacity for a handshake that a source begins. If there are too many handshakes, the source that has begun
  /// the most loses its oldest one. If that is the newcomer's own source, the oldest one is protected for `firmTime`.
  /// Otherwise an attacker behind the same relay could end the peer's handshake with a few first messages.
  func room(for source: MessageSource, _ limits: SessionLimits, at now: Instant) -> Room {
    let begun = begun
    let own = begun[source, default: 0]
    guard handshakes.count >= limits.handshakes || own >= limits.handshakesOfSource else { return .free }
    let busiest = begun.max { ($0.value, $0.key) < ($1.value, $1.key) }
    let loser = busiest.map { $0.value > own + 1 && own < limits.handshakesOfSource ? $0.key : source } ?? source
    guard let oldest = handshakes.firstIndex(where: { $0.source == loser }) else { return .none }
    let isYoung = handshakes[oldest].begunAt.duration(to: now) < limits.firmTime
    return loser == source && isYoung ? .none : .replaces(oldest)
  }

  /// Adds a handshake, and removes the one that `room` names.
  mutating func add(_ half: HalfOpen, in room: Room = .free) {
    handshakes.append(half)
    if case .replaces(let place) = room { remove(at: place) }
  }

  /// Number of handshakes by the source that began them.
  var begun: [MessageSource: Int] {
    handshakes.reduce(into: [:]) { if let source = $1.source { $0[source, default: 0] += 1 } }
  }

  /// Removes a handshake. Another one takes over its early messages and its request.
  private mutating func remove(at place: Int) {
    let gone = handshakes.remove(at: place)
    guard
      let next = handshakes.firstIndex(where: { $0.source == gone.source })
        ?? handshakes.firstIndex(where: { !$0.isInitiator })
    else { return }
    handshakes[next].takeOver(gone)
  }

  /// Removes and returns the handshakes that a source has begun.
  mutating func takeBegun(by source: MessageSource) -> [HalfOpen] {
    let gone = handshakes.filter { $0.source == source }
    handshakes.removeAll { $0.source == source }
    return gone
  }

  /// Removes and returns the handshakes whose timeout has elapsed.
  mutating func takeEnded(at now: Instant) -> [HalfOpen] {
    let ended = handshakes.filter { $0.end <= now }
    handshakes.removeAll { $0.end <= now }
    return ended
  }

  /// Records that the session is wanted: at the handshake that this side has begun, or else at the newest one.
  mutating func want() {
    guard let place = handshakes.firstIndex(where: \.isInitiator) ?? handshakes.indices.last else { return }
    handshakes[place].isWanted = true
  }

  /// Time at which this side begins a wanted handshake of its own beside one that the peer seems to have begun. Nil
  /// if this side has begun one, or wants none.
  func courtesyEnd(_ limits: SessionLimits) -> Instant? {
    guard live == nil, initiator == nil else { return nil }
    return handshakes.filter(\.isWanted).map { $0.begunAt.advanced(by: limits.courtesy) }.min()
  }

  /// Clears the request for a handshake, because this side begins one.
  mutating func wantNoMore() {
    for place in handshakes.indices { handshakes[place].isWanted = false }
  }

  /// Returns the first message of this side's handshake, and counts a copy; nil without such a handshake, or if no copy
  /// is left.
  mutating func takeCopy(_ limits: SessionLimits) -> [UInt8]? {
    guard let place = handshakes.firstIndex(where: \.isInitiator) else { return nil }
    return handshakes[place].takeCopy(limits)
  }

  /// Whether a handshake is under way in which this side is the responder.
  var hasResponder: Bool { handshakes.contains { !$0.isInitiator } }

  /// The early messages from a source.
  func early(from source: MessageSource) -> [[UInt8]] { handshakes.flatMap { $0.early(from: source) } }

  /// Stores a message that no key opens with the newest handshake that its source has begun, or else with the newest of
  /// any source.
  mutating func keepEarly(_ message: [UInt8], from source: MessageSource) {
    guard
      let place = handshakes.lastIndex(where: { $0.source == source })
        ?? handshakes.lastIndex(where: { !$0.isInitiator })
    else { return }
    handshakes[place].keepEarly(message, from: source)
  }

  /// Counts an invalid message for the handshake at `place`.
  mutating func noteBad(_ place: Int, from source: MessageSource) { handshakes[place].bad.note(source) }

  /// Whether the peer has neither a session nor a handshake under way.
  var isStranger: Bool { live == nil && handshakes.isEmpty }

  /// Activates the session of a complete handshake.
  ///
  /// - Returns: whether it replaced a session.
  mutating func adopt(_ session: LiveSession) -> Bool {
    let before = live
    if let before, before.isProven || former == nil { former = before.transport }
    (live, handshakes, undecryptable) = (session, [], 0)
    return before != nil
  }

  /// Removes the keys of the session.
  mutating func endSession() {
    (live, former) = (nil, nil)
  }

  enum Opening {
    case opened([UInt8])
    /// The peer sealed the message, but it must not be read.
    case refused(Drop)
    /// Neither the live nor the former keys open the message.
    case unknown
  }

  /// Opens a message with the live or the former keys.
  mutating func open(_ message: [UInt8], _ limits: SessionLimits, at now: Instant) -> Opening {
    guard live != nil else { return .unknown }
    do throws(NoiseError) {
      let text = try live?.transport.open(message)
      // The peer has the new keys, so it no longer needs the old ones.
      former = nil
      live?.isProven = true
      return opened(text ?? [], limits, at: now)
    } catch .authenticationFailed {
      // The peer may have sealed the message before it had the new keys.
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

  /// When this side renews the session; nil if it does not. After an unsuccessful attempt, an unused session is not
  /// renewed again: the peer may be gone.
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

/// A session with a peer, and its use so far.
struct LiveSession: Sendable {
  var transport: TransportSession
  let key: X25519.PublicKey
  let hash: [UInt8]
  /// Whether this side began the handshake.
  let isOurs: Bool
  /// The source of the message that completed the handshake.
  let source: MessageSource
  let establishedAt: Instant
  /// When the last message was sealed or opened.
  private(set) var usedAt: Instant
  /// Number of messages in both directions.
  private(set) var messages = 0
  /// When `messages` reached `SessionLimits.rekeyMessages`; nil before.
  private(set) var filledAt: Instant?
  /// Whether a message from the peer was opened with these keys.
  var isProven = false

  init(
    transport: TransportSession, key: X25519.PublicKey, hash: [UInt8], isOurs: Bool, source: MessageSource,
    at now: Instant
  ) {
    (self.transport, self.key, self.hash, self.isOurs, self.source) = (transport, key, hash, isOurs, source)
    (establishedAt, usedAt) = (now, now)
  }

  /// Whether a first message from the peer may be as old as the handshake of this session. In that case both sides
  /// began at the same time, and this side has just received the answer to its own first message.
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
    /// This side sent the first message, in the attempt with this number.
    case initiator(attempt: Int, first: [UInt8])
    /// This side answered a first message from this source. Messages that arrive before the third one are stored.
    case responder(MessageSource)
  }

  /// A sealed message that arrived before the handshake was complete.
  private struct Early: Sendable {
    let bytes: [UInt8]
    let source: MessageSource
  }

  var handshake: Handshake
  var role: Role
  let begunAt: Instant
  let end: Instant
  /// Whether data waits for the session. Another attempt follows the timeout then.
  var isWanted: Bool
  /// Number of invalid messages of the handshake that were processed, by source.
  var bad = BadMessages()
  /// Number of copies of the first message that were sent.
  private(set) var copies = 0
  private var kept: [Early] = []

  init(handshake: Handshake, role: Role, at now: Instant, for time: Duration, isWanted: Bool) {
    (self.handshake, self.role, self.isWanted) = (handshake, role, isWanted)
    (begunAt, end) = (now, now.advanced(by: time))
  }

  var isInitiator: Bool { source == nil }

  /// The source of the first message; nil if this side began.
  var source: MessageSource? {
    switch role {
    case .initiator: nil
    case .responder(let source): source
    }
  }

  /// Returns the first message, and counts a copy; nil if the peer began the handshake, or if no copy is left.
  mutating func takeCopy(_ limits: SessionLimits) -> [UInt8]? {
    guard case .initiator(_, let first) = role, copies < limits.copies else { return nil }
    copies += 1
    return first
  }

  var early: [[UInt8]] { kept.map(\.bytes) }

  func early(from source: MessageSource) -> [[UInt8]] { kept.filter { $0.source == source }.map(\.bytes) }

  mutating func keepEarly(_ message: [UInt8], from source: MessageSource) {
    if !isInitiator { kept.append(Early(bytes: message, source: source)) }
  }

  /// Takes over the request and the early messages of another handshake.
  mutating func takeOver(_ other: HalfOpen) {
    isWanted = isWanted || other.isWanted
    if !isInitiator { kept = other.kept + kept }
  }
}

/// Counts of the invalid messages of one handshake, by source.
struct BadMessages: Sendable {
  /// Maximum sources with a count of their own; all further sources share one.
  private static let sources = 16

  private var counts: [MessageSource: Int] = [:]

  func count(of source: MessageSource) -> Int { counts[place(of: source), default: 0] }

  mutating func note(_ source: MessageSource) { counts[place(of: source), default: 0] += 1 }

  private func place(of source: MessageSource) -> MessageSource {
    counts[source] != nil || counts.count < Self.sources ? source : .unknown
  }
}
