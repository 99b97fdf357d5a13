import MeshViews

/// What was said in one place: to everybody, or between two.
struct Conversation: Sendable, Equatable {
  enum Entry: Sendable, Equatable {
    case message(MeshMessageView, paragraphs: [String])
    /// What this program says, and keeps nowhere.
    case notice(String)
  }

  /// Older entries are not kept.
  static let limit = 2000

  private(set) var entries: [Entry] = []
  /// Screen lines below the last one that is shown; 0 shows the latest.
  var scroll = 0
  /// The first message that was new when the conversation came onto the screen.
  var firstNew: UInt32?

  private(set) var unread = 0
  private(set) var firstUnread: UInt32?
  /// The number of the latest message that was not seen.
  private(set) var latestUnread: UInt32?
  private(set) var hasMessages = false

  mutating func add(_ message: MeshMessageView) {
    append(.message(message, paragraphs: ChatText.paragraphs(message.text)))
    hasMessages = true
    // Where older ones went just now, it is counted already.
    if message.state == .unread, latestUnread != message.number { count(message.number) }
  }

  /// Removes everything from the screen. The service keeps the messages.
  mutating func clear() {
    (entries, scroll, firstNew) = ([], 0, nil)
    countAll()
  }

  mutating func add(notice: String) { append(.notice(notice)) }

  /// - Returns: whether the message is here.
  mutating func set(_ number: UInt32, _ state: MeshMessageView.State) -> Bool {
    for index in entries.indices.reversed() {
      guard case .message(var message, let paragraphs) = entries[index], message.number == number else { continue }
      message.state = state
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
    // Not one by one: that would move all of them each time.
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
