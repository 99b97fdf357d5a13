/// The last messages that were heard, in memory alone. When it is full the oldest goes.
struct Feed: Sendable {
  private var messages: [HeardMessage] = []
  /// Where the next one goes once the feed is full.
  private var next = 0
  private(set) var last: UInt64

  /// - Parameter last: the number before that of the first message.
  init(after last: UInt64 = 0) { self.last = last }

  /// - Returns: the message with its number.
  mutating func add(_ make: (UInt64) -> HeardMessage) -> HeardMessage {
    last += 1
    let message = make(last)
    if messages.count < Limits.messages {
      messages.append(message)
    } else {
      messages[next] = message
      next = (next + 1) % Limits.messages
    }
    return message
  }

  /// Messages of a higher number, the oldest first, `limit` of them at most.
  func messages(after number: UInt64, limit: Int) -> [HeardMessage] {
    guard limit > 0, number < last, !messages.isEmpty else { return [] }
    let first = last - UInt64(messages.count) + 1
    let begin = max(number + 1, first)
    let count = min(UInt64(limit), last - begin + 1)
    return (begin..<begin + count).map { messages[(next + Int($0 - first)) % messages.count] }
  }
}
