/// Ring buffer of the last `Limits.messages` received messages, in memory only.
struct Feed: Sendable {
  private var messages: [HeardMessage] = []
  /// Index of the oldest message, which is replaced next once the buffer is full.
  private var next = 0
  private(set) var last: UInt64

  /// - Parameter last: messages are numbered from `last` + 1.
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

  /// Messages with a number above `number`, oldest first, at most `limit`.
  func messages(after number: UInt64, limit: Int) -> [HeardMessage] {
    guard limit > 0, number < last, !messages.isEmpty else { return [] }
    let first = last - UInt64(messages.count) + 1
    let begin = max(number + 1, first)
    let count = min(UInt64(limit), last - begin + 1)
    return (begin..<begin + count).map { messages[(next + Int($0 - first)) % messages.count] }
  }
}
