import Common

/// Chat of peers that have not announced themselves yet. It waits for their announces, for a short time. Facts: bitchat.md
/// section 5.1.
///
/// Nobody has verified it, so there is little room, and one link cannot take all of it.
struct WaitingChat: Sendable {
  private struct Chat: Sendable {
    let arrival: Arrival
    let until: Instant
  }

  static let limit = 64
  static let linkLimit = 32
  static let byteLimit = 256 << 10
  static let time = Duration.seconds(5)

  /// The oldest first.
  private var chats: [Chat] = []
  private(set) var bytes = 0

  var count: Int { chats.count }
  var deadline: Instant? { chats.first?.until }

  /// Takes chat in. A copy of what waits already needs no room.
  ///
  /// - Returns: whether there is room.
  mutating func add(_ arrival: Arrival, at now: Instant) -> Bool {
    let view = arrival.view
    guard !chats.contains(where: { $0.arrival.view.isCopy(of: view) }) else { return true }
    guard chats.count < Self.limit, bytes + view.bytes.count <= Self.byteLimit,
      chats.count(where: { $0.arrival.link == arrival.link }) < Self.linkLimit
    else { return false }
    chats.append(Chat(arrival: arrival, until: now.advanced(by: Self.time)))
    bytes += view.bytes.count
    return true
  }

  /// The chat of a peer that is known now.
  mutating func take(of sender: PeerID) -> [Arrival] { remove { $0.view.sender == sender } }

  mutating func forget(_ sender: PeerID) { _ = take(of: sender) }

  /// A link is gone, and what came over it.
  ///
  /// - Returns: how many had waited in vain.
  mutating func forget(_ link: LinkID) -> UInt64 { UInt64(remove { $0.link == link }.count) }

  /// - Returns: how many had waited in vain.
  mutating func expire(at now: Instant) -> UInt64 {
    guard let deadline, deadline <= now else { return 0 }
    let late = chats.prefix { $0.until <= now }
    for chat in late { bytes -= chat.arrival.view.bytes.count }
    chats.removeFirst(late.count)
    return UInt64(late.count)
  }

  private mutating func remove(_ isMeant: (Arrival) -> Bool) -> [Arrival] {
    guard !chats.isEmpty else { return [] }
    let removed = chats.map(\.arrival).filter(isMeant)
    chats.removeAll { isMeant($0.arrival) }
    for arrival in removed { bytes -= arrival.view.bytes.count }
    return removed
  }
}

extension PacketView {
  /// Whether both are one packet, with whatever time to live.
  fileprivate func isCopy(of other: PacketView) -> Bool {
    bytes.count == other.bytes.count && bytes[1] == other.bytes[1] && bytes[3...] == other.bytes[3...]
  }
}
