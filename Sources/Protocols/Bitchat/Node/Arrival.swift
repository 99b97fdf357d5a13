import Common

/// Received packet, with its link and the way in which it arrived.
struct Arrival: Sendable {
  let view: PacketView
  let link: LinkID
  /// Whether it was reassembled from fragments. It is then not relayed, and its TTL is the lowest of its fragments.
  let isReassembled: Bool
  /// Whether it answers a sync request of this node. It may then be old.
  let isAnswer: Bool

  /// Number of hops from the sender; 1 for a neighbour.
  var hops: Int { Int(Limits.timeToLive) + 1 - Int(min(Limits.timeToLive, view.timeToLive)) }

  /// Whether the packet was received directly from its sender.
  var isDirect: Bool { view.timeToLive >= Limits.timeToLive && !isReassembled && !isAnswer }
}

/// Sender and ID of a received private message.
struct ReceivedMessage: RecentKey {
  let sender: PeerID
  let id: MessageID

  var filterBits: UInt64 {
    var hasher = Hasher()
    hash(into: &hasher)
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}
