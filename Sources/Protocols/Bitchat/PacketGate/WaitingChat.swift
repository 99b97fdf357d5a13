import BitchatWire
import Common

/// Chat of unknown peers, which waits up to 5 s for their announces. Facts: bitchat.md section 5.1.
///
/// It is not verified, so the capacity is small, and one link gets at most half of it.
struct WaitingChat: Sendable {
  private struct Chat: Sendable {
    let arrival: Arrival
    let until: Instant
  }

  static let limit = 64
  static let linkLimit = 32
  static let byteLimit = 256 << 10
  static let time = Duration.seconds(5)

  /// Public messages of unknown senders, oldest first.
  private var chats: [Chat] = []
  private(set) var bytes = 0

  var count: Int { chats.count }
  var deadline: Instant? { chats.first?.until }

  /// Queues chat. A copy of a queued packet is accepted without effect.
  ///
  /// - Returns: whether there was capacity.
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

  /// Removes and returns the chat of a peer that is now known.
  mutating func take(of sender: PeerID) -> [Arrival] { remove { $0.view.sender == sender } }

  mutating func forget(_ sender: PeerID) { _ = take(of: sender) }

  /// Removes the chat received over a link that has ended.
  ///
  /// - Returns: number of removed packets.
  mutating func forget(_ link: LinkID) -> UInt64 { UInt64(remove { $0.link == link }.count) }

  /// Removes chat that has timed out.
  ///
  /// - Returns: number of removed packets.
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
  /// Whether both are copies of one packet, regardless of TTL.
  fileprivate func isCopy(of other: PacketView) -> Bool {
    bytes.count == other.bytes.count && bytes[1] == other.bytes[1] && bytes[3...] == other.bytes[3...]
  }
}
