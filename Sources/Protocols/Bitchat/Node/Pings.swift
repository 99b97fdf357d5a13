import Common

/// Pings of this node that wait for their answers, and how many of others' are answered. A value.
struct Pings: Sendable {
  /// So long an answer is awaited.
  static let time = Duration.seconds(10)
  /// The most that wait at a time.
  static let limit = Limits.waitingPings
  /// So many are answered for a link, in any time that is so long.
  static let answers = 5
  static let answerPeriod = Duration.seconds(10)
  /// So many a second for a link to a node of this kind, confirmations of its fragments among them.
  static let fastAnswers = 250

  private struct Waiting: Sendable {
    let number: UInt32
    let peer: PeerID
    let sentAt: Instant
  }

  private var waiting: [UInt64: Waiting] = [:]
  /// When pings were answered for a link, the latest few.
  private var answeredAt: [LinkID: [Instant]] = [:]
  private var answeredFast: [LinkID: TokenBucket] = [:]

  var hasRoom: Bool { waiting.count < Self.limit }
  var deadline: Instant? { waiting.isEmpty ? nil : waiting.values.map(\.sentAt).min()?.advanced(by: Self.time) }

  mutating func add(_ number: UInt32, to peer: PeerID, nonce: UInt64, at now: Instant) {
    waiting[nonce] = Waiting(number: number, peer: peer, sentAt: now)
  }

  /// An answer came.
  ///
  /// - Returns: the ping's number, and how long it took; nil if nothing of the kind was asked.
  mutating func take(_ nonce: UInt64, from peer: PeerID, at now: Instant) -> (number: UInt32, time: Duration)? {
    guard let ping = waiting[nonce], ping.peer == peer else { return nil }
    waiting[nonce] = nil
    return (ping.number, ping.sentAt.duration(to: now))
  }

  /// - Returns: the pings that nobody has answered in time.
  mutating func takeLost(at now: Instant) -> [UInt32] {
    guard !waiting.isEmpty else { return [] }
    let lost = waiting.filter { $0.value.sentAt.advanced(by: Self.time) <= now }
    for nonce in lost.keys { waiting[nonce] = nil }
    return lost.values.map(\.number).sorted()
  }

  /// - Returns: the pings that wait, which nobody answers any more.
  mutating func endAll() -> [UInt32] {
    defer { waiting = [:] }
    return waiting.values.map(\.number).sorted()
  }

  /// - Parameter isFast: whether the other end is a node of this kind.
  mutating func takeAnswer(on link: LinkID, isFast: Bool, at now: Instant) -> Bool {
    guard !isFast else { return answeredFast[link, default: TokenBucket(Self.fastAnswers)].take(at: now) }
    // The apps count so: a bucket would give five at once, and five more in the time that follows.
    var lately = answeredAt[link, default: []]
    lately.removeAll { $0.advanced(by: Self.answerPeriod) <= now }
    defer { answeredAt[link] = lately }
    guard lately.count < Self.answers else { return false }
    lately.append(now)
    return true
  }

  mutating func forget(_ link: LinkID) { (answeredAt[link], answeredFast[link]) = (nil, nil) }
}
