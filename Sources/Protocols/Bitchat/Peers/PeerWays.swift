import BitchatWire
import Common

/// Other links over which announces of neighbours arrive, and the time since which a neighbour has not named this node.
///
/// A link counts as a peer's own when an announce arrives over it with full TTL. The TTL is not signed, so anybody can
/// replay an announce in that way. Packets for a peer therefore go over its own links and those that its announces
/// arrive over.
struct PeerWays: Sendable {
  /// Way to a peer besides its own links: a link over which announces of the peer arrive.
  struct Way: Hashable, Sendable {
    let link: LinkID
    /// Number of hops of the last announce.
    var hops: Int
    var heardAt: Instant
  }

  /// Lifetime of a way after its last announce. Relays cancel many announces, and a phone in the background sends one
  /// every few minutes.
  static let lifetime = Duration.seconds(330)
  /// Time within which a peer has to name a new neighbour in its announces.
  static let noticeTime = Duration.seconds(90)
  /// Maximum links, besides the peer's own, that are stored as ways to one peer.
  private static let wayLimit = 16
  /// Maximum peers for which ways are stored.
  private static let peerLimit = 256

  private var ways: [PeerID: [Way]] = [:]
  /// Time since which a peer has had a link of its own without naming this node as neighbour. The time survives the
  /// end of the link: otherwise an attacker could restart it with a new link.
  private var unnamed: [PeerID: Instant] = [:]

  /// Records that an announce of a peer with an own link arrived over another link.
  ///
  /// - Returns: whether this is a new way to the peer.
  @discardableResult
  mutating func note(_ peer: PeerID, over link: LinkID, hops: Int, at now: Instant) -> Bool {
    var known = ways[peer] ?? []
    var isNew = true
    if let place = known.firstIndex(where: { $0.link == link }) {
      isNew = known[place].heardAt.duration(to: now) >= Self.lifetime
      known[place].hops = hops
      known[place].heardAt = now
    } else {
      known.append(Way(link: link, hops: hops, heardAt: now))
      if known.count > Self.wayLimit { known.removeFirst() }
    }
    if ways[peer] == nil, ways.count >= Self.peerLimit { return false }
    ways[peer] = known
    return isNew
  }

  /// The ways to a peer, except its own links.
  func others(to peer: PeerID, besides own: [LinkID], at now: Instant) -> [Way] {
    (ways[peer] ?? []).filter { !own.contains($0.link) && $0.heardAt.duration(to: now) < Self.lifetime }
  }

  /// Records that a peer has a link of its own, or has announced itself while it has one.
  ///
  /// - Parameter isNamed: whether the peer names this node as its neighbour.
  mutating func observe(_ peer: PeerID, isNamed: Bool, at now: Instant) {
    guard !isNamed else {
      unnamed[peer] = nil
      return
    }
    guard unnamed[peer] == nil else { return }
    if unnamed.count >= Self.peerLimit,
      let oldest = unnamed.min(by: { ($0.value, $0.key) < ($1.value, $1.key) })?.key
    {
      unnamed[oldest] = nil
    }
    unnamed[peer] = now
  }

  /// Whether a peer has not named this node for `noticeTime`.
  ///
  /// - Parameter saidAt: time of its last neighbour list.
  func isDenied(by peer: PeerID, saidAt: Instant) -> Bool {
    unnamed[peer].map { $0.duration(to: saidAt) >= Self.noticeTime } ?? false
  }

  /// Removes a link that has ended.
  mutating func forget(_ link: LinkID) {
    for peer in ways.keys {
      ways[peer]?.removeAll { $0.link == link }
      if ways[peer]?.isEmpty == true { ways[peer] = nil }
    }
  }

  /// Removes the ways to a peer that no longer has a link of its own.
  mutating func forgetWays(to peer: PeerID) { ways[peer] = nil }

  /// Removes the ways to a forgotten peer.
  mutating func forget(_ peer: PeerID) { (ways[peer], unnamed[peer]) = (nil, nil) }
}
