import Common

/// How much of what went over a link to a node of this kind its other end has taken. Every few packets it is asked with a ping, which
/// goes behind them: its answer confirms them. How many may be unconfirmed follows how long answers take: as many as keep the link
/// busy, and no more than nobody notices, for what waits on the way nothing overtakes. A value.
struct Confirming: Sendable {
  /// The fewest and the most packets that may be unconfirmed.
  static let limits = 24...96
  /// An answer that takes no longer is quick, on whatever link.
  static let quick = Duration.milliseconds(150)
  /// So long an answer is waited for at least. A ping can be lost.
  static let time = Duration.seconds(1)

  private struct Question: Sendable {
    let nonce: UInt64
    /// Packets that its answer confirms, beside those of earlier questions.
    let packets: Int
    let askedAt: Instant
  }

  private var questions: [Question] = []
  /// Those that were given up last. What comes too late for them shows how long answers take.
  private var overdue: [Question] = []
  /// Packets that went after the last question.
  private var unasked = 0
  private var lastAt = Instant.zero
  /// The shortest time that an answer took of late; nil before the first.
  private var shortest: Duration?
  /// The most packets that may be unconfirmed now.
  private(set) var limit = limits.lowerBound

  var unconfirmed: Int { questions.reduce(unasked) { $0 + $1.packets } }
  /// Three questions are under way where the link is busy: one that is lost holds up nothing.
  var isDue: Bool { unasked >= limit / 3 }
  /// When the next packet may go.
  var next: Instant { unconfirmed < limit ? .zero : lastAt.advanced(by: patience) }

  /// A link that is slow by nature is not taken for one that is lost.
  private var patience: Duration { max(Self.time, (shortest ?? .zero) * 4) }

  mutating func sent(at now: Instant) {
    if unconfirmed >= limit {
      // Nobody answers: it goes on without, and asks anew.
      limit = Self.limits.lowerBound
      (overdue, questions, unasked, shortest) = (questions, [], limit / 3, nil)
    }
    unasked += 1
    lastAt = now
  }

  mutating func ask(_ nonce: UInt64, at now: Instant) {
    questions.append(Question(nonce: nonce, packets: unasked, askedAt: now))
    unasked = 0
  }

  /// - Returns: whether it was asked for; earlier questions are answered with it.
  mutating func confirm(_ nonce: UInt64, at now: Instant) -> Bool {
    guard let index = questions.firstIndex(where: { $0.nonce == nonce }) else { return isOverdue(nonce, at: now) }
    let taken = questions[index].askedAt.duration(to: now)
    questions.removeFirst(index + 1)
    // What the shortest was may not be true any more, of a link whose radio has more to do than before.
    let shortest = min(taken, self.shortest.map { $0 + $0 / 64 } ?? taken)
    self.shortest = shortest
    let wanted = taken <= max(shortest * 2, Self.quick) ? limit + 6 : limit - limit / 4
    limit = min(max(wanted, Self.limits.lowerBound), Self.limits.upperBound)
    return true
  }

  private mutating func isOverdue(_ nonce: UInt64, at now: Instant) -> Bool {
    guard let question = overdue.first(where: { $0.nonce == nonce }) else { return false }
    (overdue, shortest) = ([], question.askedAt.duration(to: now))
    return true
  }
}
