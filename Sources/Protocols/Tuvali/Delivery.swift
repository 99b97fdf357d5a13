import Common

/// Sends the chunks of a frame in rounds, with a bounded number of chunks at the radio.
struct Delivery: Sendable {
  let chunker: Chunker
  /// When the report is requested again; nil during a round.
  private(set) var reportDue: Instant?
  /// When the report of this round was first requested; nil before.
  private(set) var askingSince: Instant?
  /// Whether this round repeats the chunks named by the last report.
  private(set) var isResending = false

  private let window: Int
  /// Sequence numbers of the chunks of this round. Those before the index `next` were sent.
  private var round: [Int]
  private var next = 0
  private var inFlight = 0
  private var isRoundOpen = true

  init(_ chunker: Chunker, window: Int) {
    self.chunker = chunker
    self.window = max(1, window)
    round = Array(chunker.sequences)
  }

  /// Returns the sequence numbers of the chunks that the radio can take now.
  mutating func fill(_ progress: inout WalletEngine.Progress) -> [Int] {
    let count = min(window - inFlight, round.count - next)
    guard count > 0 else { return [] }
    let sequences = round[next..<next + count]
    next += count
    inFlight += count
    if !isResending {
      progress.bytesSent = progress.bytesExpected * next / max(1, round.count)
    }
    return Array(sequences)
  }

  /// Handles a chunk that the radio has sent, and returns the next ones to send.
  mutating func written(_ progress: inout WalletEngine.Progress) -> [Int] {
    inFlight = max(0, inFlight - 1)
    return fill(&progress)
  }

  /// Begins a round with the missing chunks. Numbers outside of the frame are ignored.
  mutating func resend(_ sequences: [Int], _ progress: inout WalletEngine.Progress) -> [Int] {
    isResending = true
    (reportDue, askingSince) = (nil, nil)
    round = sequences.filter(chunker.sequences.contains)
    next = 0
    isRoundOpen = true
    return fill(&progress)
  }

  /// Records that the report of this round was requested, and when to request it again.
  mutating func asked(at now: Instant, due: Instant) {
    askingSince = askingSince ?? now
    reportDue = due
  }

  /// Ends the round again, so that the report is requested once more, because none arrived.
  mutating func askAgain() {
    reportDue = nil
    isRoundOpen = true
  }

  /// Whether the radio has sent the whole round, so that the report must be requested; true once per round.
  mutating func takeRoundEnd() -> Bool {
    guard isRoundOpen, next == round.count, inFlight == 0 else { return false }
    isRoundOpen = false
    return true
  }
}
