import MeshViews

/// Messages to everybody, or between two peers.
struct Conversation: Sendable, Equatable {
  enum Entry: Sendable, Equatable {
    case message(MeshMessageView, paragraphs: [String])
    /// A notice of this program in the conversation, which the service does not store.
    case notice(String)
  }

  /// Maximum number of messages and notices of a conversation that the chat holds.
  static let limit = 2000

  private(set) var entries: [Entry] = []
  /// Number of screen lines below the last visible one; 0 shows the latest.
  var scroll = 0
  /// First message that was unread when the conversation was opened.
  var firstNew: UInt32?

  private(set) var unread = 0
  private(set) var firstUnread: UInt32?
  /// Number of the latest unread message.
  private(set) var latestUnread: UInt32?
  private(set) var hasMessages = false

  mutating func add(_ message: MeshMessageView) {
    append(.message(message, paragraphs: ChatText.paragraphs(message.text)))
    hasMessages = true
    // `append` may have counted the message when it dropped older ones.
    if message.state == .unread, latestUnread != message.number { count(message.number) }
  }

  /// Clears the screen. The service still stores the messages.
  mutating func clear() {
    (entries, scroll, firstNew) = ([], 0, nil)
    countAll()
  }

  mutating func add(notice: String) { append(.notice(notice)) }

  /// Sets the state of a message.
  ///
  /// - Returns: whether the conversation has the message.
  mutating func edit(_ number: UInt32, _ change: (inout MeshMessageView) -> Void) -> Bool {
    for index in entries.indices.reversed() {
      guard case .message(var message, let paragraphs) = entries[index], message.number == number else { continue }
      change(&message)
      entries[index] = .message(message, paragraphs: paragraphs)
      countAll()
      return true
    }
    return false
  }

  mutating func markSeen() {
    guard unread > 0 else { return }
    for index in entries.indices {
      guard case .message(var message, let paragraphs) = entries[index], message.state == .unread else { continue }
      message.state = .seen
      entries[index] = .message(message, paragraphs: paragraphs)
    }
    countAll()
  }

  private mutating func append(_ entry: Entry) {
    entries.append(entry)
    // Dropping entries one by one would move all others each time.
    guard entries.count > Self.limit + Self.limit / 10 else { return }
    entries.removeFirst(entries.count - Self.limit)
    countAll()
  }

  private mutating func countAll() {
    (unread, firstUnread, latestUnread) = (0, nil, nil)
    for case .message(let message, _) in entries where message.state == .unread { count(message.number) }
  }

  private mutating func count(_ number: UInt32) {
    unread += 1
    firstUnread = firstUnread ?? number
    latestUnread = number
  }
}
