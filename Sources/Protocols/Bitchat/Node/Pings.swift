import Common

/// Pings of this node that await answers, and limits on answers to other nodes.
struct Pings: Sendable {
  /// Ping timeout.
  static let time = Duration.seconds(10)
  /// Maximum pings that wait at a time.
  static let limit = Limits.waitingPings
  /// Maximum ping replies per link within any `answerPeriod`.
  static let answers = 5
  static let answerPeriod = Duration.seconds(10)
  /// Maximum ping replies and fragment confirmations per second on a link to an Earshot peer.
  static let fastAnswers = 250

  private struct Waiting: Sendable {
    let number: UInt32
    let peer: PeerID
    let sentAt: Instant
  }

  private var waiting: [UInt64: Waiting] = [:]
  /// Times of the latest answers per link.
  private var answeredAt: [LinkID: [Instant]] = [:]
  private var answeredFast: [LinkID: TokenBucket] = [:]

  var hasRoom: Bool { waiting.count < Self.limit }
  var deadline: Instant? { waiting.isEmpty ? nil : waiting.values.map(\.sentAt).min()?.advanced(by: Self.time) }

  mutating func add(_ number: UInt32, to peer: PeerID, nonce: UInt64, at now: Instant) {
    waiting[nonce] = Waiting(number: number, peer: peer, sentAt: now)
  }

  /// Handles an answer.
  ///
  /// - Returns: the ping's number and round-trip time; nil if there was no such ping.
  mutating func take(_ nonce: UInt64, from peer: PeerID, at now: Instant) -> (number: UInt32, time: Duration)? {
    guard let ping = waiting[nonce], ping.peer == peer else { return nil }
    waiting[nonce] = nil
    return (ping.number, ping.sentAt.duration(to: now))
  }

  /// - Returns: pings that have timed out.
  mutating func takeLost(at now: Instant) -> [UInt32] {
    guard !waiting.isEmpty else { return [] }
    let lost = waiting.filter { $0.value.sentAt.advanced(by: Self.time) <= now }
    for nonce in lost.keys { waiting[nonce] = nil }
    return lost.values.map(\.number).sorted()
  }

  /// - Returns: pings that were waiting, and are now ended.
  mutating func endAll() -> [UInt32] {
    defer { waiting = [:] }
    return waiting.values.map(\.number).sorted()
  }

  /// - Parameter isFast: whether the peer is an Earshot peer.
  mutating func takeAnswer(on link: LinkID, isFast: Bool, at now: Instant) -> Bool {
    guard !isFast else { return answeredFast[link, default: TokenBucket(Self.fastAnswers)].take(at: now) }
    // A sliding window, as in the apps. A token bucket would allow ten answers within one period.
    var lately = answeredAt[link, default: []]
    lately.removeAll { $0.advanced(by: Self.answerPeriod) <= now }
    defer { answeredAt[link] = lately }
    guard lately.count < Self.answers else { return false }
    lately.append(now)
    return true
  }

  mutating func forget(_ link: LinkID) { (answeredAt[link], answeredFast[link]) = (nil, nil) }
}
