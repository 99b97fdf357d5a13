import Common

/// The chunks of a frame on their way: a bounded number with the radio at a time, round after round.
struct Delivery: Sendable {
  let chunker: Chunker
  /// When the report is asked for again; nil while a round is under way.
  private(set) var reportDue: Instant?
  /// When this round's report was first asked for.
  private(set) var askingSince: Instant?
  /// Whether this round sends what the last report named.
  private(set) var isResending = false

  private let window: Int
  /// What this round sends, from `next` on.
  private var round: [Int]
  private var next = 0
  private var inFlight = 0
  private var isRoundOpen = true

  init(_ chunker: Chunker, window: Int) {
    self.chunker = chunker
    self.window = max(1, window)
    round = Array(chunker.sequences)
  }

  /// The chunks that there is room for now.
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

  /// One chunk has left the radio.
  mutating func written(_ progress: inout WalletEngine.Progress) -> [Int] {
    inFlight = max(0, inFlight - 1)
    return fill(&progress)
  }

  /// Begins a round with what is missing. Numbers that the frame does not have are passed over.
  mutating func resend(_ sequences: [Int], _ progress: inout WalletEngine.Progress) -> [Int] {
    isResending = true
    (reportDue, askingSince) = (nil, nil)
    round = sequences.filter(chunker.sequences.contains)
    next = 0
    isRoundOpen = true
    return fill(&progress)
  }

  /// The report of this round is being asked for, and again at `due` if it does not come.
  mutating func asked(at now: Instant, due: Instant) {
    askingSince = askingSince ?? now
    reportDue = due
  }

  /// No report came: the round ends once more.
  mutating func askAgain() {
    reportDue = nil
    isRoundOpen = true
  }

  /// Whether the round is with the radio entirely and the report is to be asked for; true once a round.
  mutating func takeRoundEnd() -> Bool {
    guard isRoundOpen, next == round.count, inFlight == 0 else { return false }
    isRoundOpen = false
    return true
  }
}
