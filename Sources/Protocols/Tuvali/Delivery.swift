import Common

/// Sends the chunks of a frame, round after round. The radio has a bounded number of them at a time.
struct Delivery: Sendable {
  let chunker: Chunker
  /// When the report is asked for again; nil while a round is under way.
  private(set) var reportDue: Instant?
  /// When the report of this round was asked for first.
  private(set) var askingSince: Instant?
  /// Whether this round sends what the last report named.
  private(set) var isResending = false

  private let window: Int
  /// The sequence numbers that this round sends; those before `next` are sent.
  private var round: [Int]
  private var next = 0
  private var inFlight = 0
  private var isRoundOpen = true

  init(_ chunker: Chunker, window: Int) {
    self.chunker = chunker
    self.window = max(1, window)
    round = Array(chunker.sequences)
  }

  /// The sequence numbers of the chunks that the radio has room for now.
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

  /// One chunk has left the radio: returns what there is room for now.
  mutating func written(_ progress: inout WalletEngine.Progress) -> [Int] {
    inFlight = max(0, inFlight - 1)
    return fill(&progress)
  }

  /// Begins a round with the missing chunks. Numbers that the frame does not have are passed over.
  mutating func resend(_ sequences: [Int], _ progress: inout WalletEngine.Progress) -> [Int] {
    isResending = true
    (reportDue, askingSince) = (nil, nil)
    round = sequences.filter(chunker.sequences.contains)
    next = 0
    isRoundOpen = true
    return fill(&progress)
  }

  /// Notes that the report of this round is asked for, and is asked for again at `due` if it does not come.
  mutating func asked(at now: Instant, due: Instant) {
    askingSince = askingSince ?? now
    reportDue = due
  }

  /// Ends the round once more, because no report came.
  mutating func askAgain() {
    reportDue = nil
    isRoundOpen = true
  }

  /// Whether the radio has sent the whole round, so that the report is to be asked for; true once a round.
  mutating func takeRoundEnd() -> Bool {
    guard isRoundOpen, next == round.count, inFlight == 0 else { return false }
    isRoundOpen = false
    return true
  }
}
