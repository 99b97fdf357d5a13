import Common

/// How much of what went over a link to a node of this kind its other end has taken. Every so many packets it is asked with a ping,
/// which goes behind them: its answer confirms them. A value.
struct Confirming: Sendable {
  /// The most packets that are not confirmed: with 512 bytes each, what a link carries in a third of a second at best.
  static let limit = 48
  /// So many packets go with each ping.
  static let period = 16
  /// So long an answer is waited for. A ping can be lost.
  static let time = Duration.seconds(1)

  private struct Question: Sendable {
    let nonce: UInt64
    /// Packets that its answer confirms, beside those of earlier questions.
    let packets: Int
  }

  private var questions: [Question] = []
  /// Packets that went after the last question.
  private var unasked = 0
  private var lastAt = Instant.zero

  var unconfirmed: Int { questions.reduce(unasked) { $0 + $1.packets } }
  var isDue: Bool { unasked >= Self.period }
  /// When the next packet may go.
  var next: Instant { unconfirmed < Self.limit ? .zero : lastAt.advanced(by: Self.time) }

  mutating func sent(at now: Instant) {
    // Nobody answers: it goes on without, and asks anew.
    if unconfirmed >= Self.limit { (questions, unasked) = ([], Self.period) }
    unasked += 1
    lastAt = now
  }

  mutating func ask(_ nonce: UInt64) {
    questions.append(Question(nonce: nonce, packets: unasked))
    unasked = 0
  }

  /// - Returns: whether it was asked for; earlier questions are answered with it.
  mutating func confirm(_ nonce: UInt64) -> Bool {
    guard let index = questions.firstIndex(where: { $0.nonce == nonce }) else { return false }
    questions.removeFirst(index + 1)
    return true
  }
}
