import Common

/// How much of what went over a link to a node of this kind its other end has taken. Every few packets it is asked with a
/// ping, which goes behind them: its answer confirms them. A value.
///
/// As many packets may be unconfirmed as keep the link busy, and few more, for what waits on the way nothing overtakes: what
/// the link has taken of late in the time that an answer needs on an empty one, and a little beyond. That time is measured
/// with the first packet, and anew every ten seconds: then all is confirmed before the next packet goes. Without that a link
/// that is always full would pass for one that is slow.
struct Confirming: Sendable {
  /// The fewest and the most packets that may be unconfirmed.
  static let limits = 4...96
  /// So long packets may wait on the way, or for half the time that an answer needs where that is longer.
  static let wait = Duration.milliseconds(40)
  /// So long an answer is waited for at least. A ping can be lost.
  static let time = Duration.seconds(1)
  /// From one measurement on an empty link to the next; where an answer takes more than a 64th of this, 64 times its time.
  static let period = Duration.seconds(10)
  /// How fast the link is, is the best that so many answers have shown.
  private static let rateCount = 10
  /// Nothing is faster than the clock can tell.
  private static let shortestTime = Duration.milliseconds(1)

  private struct Question: Sendable {
    let nonce: UInt64
    /// Packets that its answer confirms, beside those of earlier questions.
    let packets: Int
    let askedAt: Instant
    /// How many packets were confirmed by then.
    let confirmed: Int
  }

  private var questions: [Question] = []
  /// Those that were given up last. What comes too late for them shows how long answers take.
  private var overdue: [Question] = []
  /// Packets that went after the last question.
  private var unasked = 0
  private var lastAt = Instant.zero
  private var confirmed = 0
  /// The shortest time that an answer took, and since when it is known; nil before the first.
  private var shortest: (time: Duration, since: Instant)?
  /// Packets a second, as the last answers showed them.
  private var rates: [Double] = []
  /// Whether nothing more goes until all is confirmed.
  private var isEmptying = false
  /// Whether the next answer says how long answers take.
  private var isMeasuring = true
  /// The most packets that may be unconfirmed now.
  private(set) var limit = limits.lowerBound
  /// After so many packets the other end is asked.
  private var interval = Self.interval(of: limits.lowerBound)

  var unconfirmed: Int { questions.reduce(unasked) { $0 + $1.packets } }
  var isDue: Bool { unasked >= interval || unasked > 0 && (isEmptying || isMeasuring && questions.isEmpty) }
  /// When the next packet may go.
  var next: Instant { hasRoom ? .zero : lastAt.advanced(by: patience) }

  private var hasRoom: Bool { unconfirmed < (isEmptying ? 1 : limit) }
  /// A link that is slow by nature is not taken for one that is lost.
  private var patience: Duration { max(Self.time, (shortest?.time ?? .zero) * 4) }

  mutating func sent(at now: Instant) {
    if !hasRoom {
      // Nobody answers: it goes on without, and asks anew.
      limit = Self.limits.lowerBound
      interval = Self.interval(of: limit)
      (overdue, questions, unasked, shortest, rates) = (questions, [], limit / 3, nil, [])
      (isEmptying, isMeasuring) = (false, true)
    } else if let shortest, !isMeasuring, shortest.since.duration(to: now) > max(Self.period, shortest.time * 64) {
      isEmptying = true
    }
    unasked += 1
    lastAt = now
  }

  mutating func ask(_ nonce: UInt64, at now: Instant) {
    questions.append(Question(nonce: nonce, packets: unasked, askedAt: now, confirmed: confirmed))
    unasked = 0
  }

  /// - Returns: whether it was asked for; earlier questions are answered with it.
  mutating func confirm(_ nonce: UInt64, at now: Instant) -> Bool {
    guard let index = questions.firstIndex(where: { $0.nonce == nonce }) else { return isOverdue(nonce, at: now) }
    let question = questions[index]
    let taken = max(question.askedAt.duration(to: now), Self.shortestTime)
    confirmed += questions[...index].reduce(0) { $0 + $1.packets }
    questions.removeFirst(index + 1)
    rates = rates.suffix(Self.rateCount - 1) + [Double(confirmed - question.confirmed) / (taken / .seconds(1))]
    if isEmptying, unconfirmed == 0 {
      (isEmptying, isMeasuring) = (false, true)
    } else {
      if isMeasuring || shortest.map({ taken < $0.time }) ?? true { shortest = (taken, now) }
      isMeasuring = false
    }
    adapt()
    return true
  }

  private mutating func adapt() {
    guard let shortest, let rate = rates.max() else { return }
    let wait = max(Self.wait, shortest.time / 2)
    let packets = rate * ((shortest.time + wait) / .seconds(1))
    limit = min(max(Int(packets.rounded()), Self.limits.lowerBound), Self.limits.upperBound)
    interval = Self.interval(of: limit, wait / (shortest.time + wait))
  }

  /// Questions and answers cost the link as much as packets do. The answer comes in time where no more packets go before a question
  /// than may wait on the way, and where two questions are under way one that is lost holds up little.
  ///
  /// - Parameter share: that of the packets which may wait on the way.
  private static func interval(of limit: Int, _ share: Double = 1 / 3) -> Int {
    max(Int(Double(limit) * min(share, 1 / 2)), 2)
  }

  private mutating func isOverdue(_ nonce: UInt64, at now: Instant) -> Bool {
    guard let question = overdue.first(where: { $0.nonce == nonce }) else { return false }
    (overdue, shortest) = ([], (question.askedAt.duration(to: now), now))
    isMeasuring = false
    return true
  }
}
