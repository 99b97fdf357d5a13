import BitchatWire
import Common

/// State of one link in the engine: its peer, limits and dialect.
struct MeshLink: Sendable {
  /// Maximum length of one write or notification, in bytes.
  var frameLimit: Int
  /// Whether this node initiated the link.
  let isOurs: Bool
  let origin: DeviceOrigin
  /// Mark by which stored records name the device at the other end of the link.
  let mark: UInt32
  /// Time since which the link has had no known peer: its start, or the leave of its last peer.
  private(set) var vacantSince: Instant
  var heardAt: Instant
  /// Peer at the other end, from its announce to its leave.
  var peer: PeerID?
  /// Peer that sent a leave over this link, and may announce itself again.
  var formerPeer: PeerID?
  /// When the peer announced itself over the link; nil before that.
  var boundAt: Instant?
  /// Timestamp of the newest announce of the peer that arrived over this link before any other link; 0 if there is
  /// none.
  var broughtAt: UInt64 = 0
  /// Malformed packets that the peer may still send before the link is cut.
  var garbage = TokenBucket(garbageLimit, each: garbageTime)

  /// Malformed packets within `garbageTime` after which the link is cut.
  static let garbageLimit = 100
  static let garbageTime = Duration.seconds(10)
  /// Minimum time between changes of the peer of a link.
  static let rebindTime = Duration.seconds(60)
  /// Time in which a peer must announce itself, also after a leave.
  static let announceTime = Duration.seconds(15)
  /// Idle timeout of a peer. A phone in the background announces itself every five minutes.
  static let silentTime = Duration.seconds(330)
  /// Idle timeout in the document of 2025.
  static let strictSilentTime = Duration.seconds(60)

  /// - Parameter node: this node, whose records have the mark.
  init(frameLimit: Int, isOurs: Bool, origin: DeviceOrigin, node: PeerID, at now: Instant) {
    self.frameLimit = frameLimit
    self.isOurs = isOurs
    self.origin = origin
    mark = origin.mark(for: node)
    vacantSince = now
    heardAt = now
  }

  /// Removes the peer from the link, because it has sent a leave.
  mutating func vacate(at now: Instant) {
    (peer, formerPeer) = (nil, peer)
    vacantSince = now
  }

  /// Returns when the link is cut if no packet arrives.
  func end(isStrict: Bool) -> Instant {
    guard peer != nil else { return vacantSince.advanced(by: Self.announceTime) }
    return heardAt.advanced(by: isStrict ? Self.strictSilentTime : Self.silentTime)
  }
}

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
