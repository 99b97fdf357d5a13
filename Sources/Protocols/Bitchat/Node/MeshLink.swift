import Common

/// A link of the mesh.
struct MeshLink: Sendable {
  /// The most bytes that one write or notification takes.
  var frameLimit: Int
  /// Whether this node has made it.
  let isOurs: Bool
  let origin: DeviceOrigin
  /// Since when the other end has been nobody known: the beginning, or a leave.
  private(set) var vacantSince: Instant
  var heardAt: Instant
  /// The peer at the other end, once it has announced itself, and until it says that it leaves.
  var peer: PeerID?
  /// The one that has left, which may come back at any time.
  var formerPeer: PeerID?
  /// When the link was bound to that peer.
  var boundAt: Instant?
  /// The time of the newest announce of the peer that came over this link before it came over any other; 0 without one.
  var broughtAt: UInt64 = 0
  /// After how many fragments of its files the peer wants a confirmation; 0 where it has not asked for any.
  var confirmationInterval = 0
  /// Fragments that came since the last one.
  var unconfirmed = 0
  /// Frames that were no packets, as far as there are no more than are allowed.
  var garbage = TokenBucket(garbageLimit, each: garbageTime)

  /// So many frames that are no packets, within so long, end a link.
  static let garbageLimit = 100
  static let garbageTime = Duration.seconds(10)
  /// A link may change its peer so often.
  static let rebindTime = Duration.seconds(60)
  /// So long the other end has to announce itself, also after a leave.
  static let announceTime = Duration.seconds(15)
  /// So long a peer may be silent: a phone in the background announces itself every five minutes.
  static let silentTime = Duration.seconds(330)
  /// The same by the document of 2025.
  static let strictSilentTime = Duration.seconds(60)

  init(frameLimit: Int, isOurs: Bool, origin: DeviceOrigin, at now: Instant) {
    self.frameLimit = frameLimit
    self.isOurs = isOurs
    self.origin = origin
    vacantSince = now
    heardAt = now
  }

  /// The peer has said that it leaves.
  mutating func vacate(at now: Instant) {
    (peer, formerPeer) = (nil, peer)
    vacantSince = now
  }

  /// When the link is cut unless something comes.
  func end(isStrict: Bool) -> Instant {
    guard peer != nil else { return vacantSince.advanced(by: Self.announceTime) }
    return heardAt.advanced(by: isStrict ? Self.strictSilentTime : Self.silentTime)
  }
}
