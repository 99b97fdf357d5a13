import Common

/// Chat of peers that have not announced themselves yet. It waits for their announces, for a short time. Facts: bitchat.md
/// section 5.1.
struct WaitingChat: Sendable {
  struct Chat: Sendable {
    let view: PacketView
    let link: LinkID
    let until: Instant
  }

  static let limit = 64
  static let time = Duration.seconds(5)

  /// The oldest first.
  private var chats: [Chat] = []

  var count: Int { chats.count }
  var deadline: Instant? { chats.first?.until }

  /// - Returns: whether there is room.
  mutating func add(_ view: PacketView, on link: LinkID, at now: Instant) -> Bool {
    guard chats.count < Self.limit else { return false }
    chats.append(Chat(view: view, link: link, until: now.advanced(by: Self.time)))
    return true
  }

  /// The chat of a peer that is known now.
  mutating func take(of sender: PeerID) -> [Chat] {
    let taken = chats.filter { $0.view.sender == sender }
    chats.removeAll { $0.view.sender == sender }
    return taken
  }

  mutating func forget(_ sender: PeerID) { chats.removeAll { $0.view.sender == sender } }

  /// - Returns: how many had waited in vain.
  mutating func expire(at now: Instant) -> UInt64 {
    let late = chats.prefix { $0.until <= now }.count
    chats.removeFirst(late)
    return UInt64(late)
  }
}
