import Common
import Crypto

/// Queue of own messages: one at a time, each for 4 s, starting at least 6 s apart. Facts: pblec.md section 2.
struct Sender: Sendable {
  private struct Waiting: Sendable {
    let number: UInt64
    let text: MessageText
  }

  private enum Turn: Sendable {
    case nobody
    /// The message with this number has waited for an advertising slot since the given time.
    case asking(UInt64, since: Instant)
    /// The message with this number has been broadcast since the given time.
    case onAir(UInt64, since: Instant)

    var number: UInt64? {
      switch self {
      case .nobody: nil
      case .asking(let number, _), .onAir(let number, _): number
      }
    }
  }

  private var turn = Turn.nobody
  private var waiting: [Waiting] = []
  private var digit: UInt8
  private var last: UInt64
  /// Start of the last broadcast.
  private var lastStart: Instant?
  /// End of the last broadcast; nil once its address was released.
  private var lastEnd: Instant?

  /// - Parameter last: messages are numbered from `last` + 1.
  init(randomFrom random: inout some RandomSource, after last: UInt64 = 0) {
    self.last = last
    // Reject bytes of 250 and above, so that all digits are equally likely.
    var byte = random.bytes(1)[0]
    while byte >= 250 { byte = random.bytes(1)[0] }
    digit = byte % 10
  }

  /// Number of pending messages, including the one being broadcast.
  var count: Int { waiting.count + (turn.number == nil ? 0 : 1) }

  var deadline: Instant? {
    switch turn {
    case .asking(_, let since): since.advanced(by: Limits.longestSilence)
    case .onAir: nil
    case .nobody: waiting.isEmpty ? lastEnd?.advanced(by: Limits.conversation) : nextStart
    }
  }

  private var nextStart: Instant { lastStart?.advanced(by: Limits.messagePeriod) ?? Instant(nanoseconds: .min) }

  mutating func send(
    _ text: MessageText, at now: Instant
  ) throws(BroadcastError) -> (number: UInt64, actions: [BroadcastEngine.Action]) {
    guard count < Limits.queue else { throw .queueFull(seconds: secondsToRoom(at: now)) }
    last += 1
    waiting.append(Waiting(number: last, text: text))
    return (last, next(at: now))
  }

  /// Cancels a message that is waiting, or stops one that is being broadcast.
  mutating func cancel(_ number: UInt64, at now: Instant) throws(BroadcastError) -> [BroadcastEngine.Action] {
    if let index = waiting.firstIndex(where: { $0.number == number }) {
      waiting.remove(at: index)
      return [.dropped(number, .cancelled)]
    }
    guard number == turn.number else { throw .unknownMessage }
    return end(.dropped(number, .cancelled), at: now, [.silence])
  }

  mutating func began(_ number: UInt64, at now: Instant) {
    guard case .asking(number, _) = turn else { return }
    turn = .onAir(number, since: now)
    lastStart = now
    digit = (digit + 1) % 10
  }

  mutating func ended(_ number: UInt64, wasCutShort: Bool, at now: Instant) -> [BroadcastEngine.Action] {
    guard case .onAir(number, _) = turn else { return [] }
    return end(wasCutShort ? .dropped(number, .cutShort) : .sent(number), at: now)
  }

  /// Removes a message that the radio refused to broadcast.
  mutating func refused(
    _ number: UInt64, _ error: BroadcastError, at now: Instant
  ) -> [BroadcastEngine.Action] {
    guard case .asking(number, _) = turn else { return [] }
    return end(.dropped(number, error), at: now)
  }

  mutating func timer(at now: Instant) -> [BroadcastEngine.Action] {
    switch turn {
    case .asking(let number, let since) where since.duration(to: now) >= Limits.longestSilence:
      return end(.dropped(number, .noPlace), at: now, [.silence])
    case .asking, .onAir: return []
    case .nobody:
      guard waiting.isEmpty else { return next(at: now) }
      guard let lastEnd, lastEnd.duration(to: now) >= Limits.conversation else { return [] }
      self.lastEnd = nil
      return [.leaveAir]
    }
  }

  /// Drops all pending messages and releases the advertising set.
  mutating func stop() -> [BroadcastEngine.Action] {
    let numbers = [turn.number].compactMap { $0 } + waiting.map(\.number)
    (turn, waiting, lastEnd) = (.nobody, [], nil)
    return numbers.map { .dropped($0, .cancelled) } + [.leaveAir]
  }

  private mutating func end(
    _ outcome: BroadcastEngine.Action, at now: Instant, _ before: [BroadcastEngine.Action] = []
  ) -> [BroadcastEngine.Action] {
    turn = .nobody
    lastEnd = now
    return before + [outcome] + next(at: now)
  }

  private mutating func next(at now: Instant) -> [BroadcastEngine.Action] {
    guard case .nobody = turn, now >= nextStart, !waiting.isEmpty else { return [] }
    let message = waiting.removeFirst()
    turn = .asking(message.number, since: now)
    return [.transmit(message.number, MessagePacket(digit: digit, text: message.text))]
  }

  /// Seconds until the first pending message has been broadcast, so that the queue has capacity, rounded up.
  private func secondsToRoom(at now: Instant) -> Int {
    let end =
      switch turn {
      case .onAir(_, let since): since.advanced(by: Limits.airTime)
      case .asking: now.advanced(by: Limits.airTime)
      case .nobody: max(now, nextStart).advanced(by: Limits.airTime)
      }
    let left = max(1, now.duration(to: end).wholeNanoseconds)
    return Int((left + 999_999_999) / 1_000_000_000)
  }
}
