import Common

/// A packet that came, and how.
struct Arrival: Sendable {
  let view: PacketView
  let link: LinkID
  /// Whether it was put together from fragments: then it is not passed on. Its time to live is that of its last fragment.
  let isReassembled: Bool
  /// Whether it answers this node's request for sync: then it may be old.
  let isAnswer: Bool

  /// How many hops it has come; 1 from a neighbour.
  var hops: Int { Int(Limits.timeToLive) + 1 - Int(min(Limits.timeToLive, view.timeToLive)) }

  /// Whether it comes from its sender, and from nobody in between.
  var isDirect: Bool { view.timeToLive >= Limits.timeToLive && !isReassembled && !isAnswer }
}

/// A private message that came: its sender and its ID.
struct ReceivedMessage: RecentKey {
  let sender: PeerID
  let id: MessageID

  var filterBits: UInt64 {
    var hasher = Hasher()
    hash(into: &hasher)
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}
